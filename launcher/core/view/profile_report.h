// The step profile of an attempt for report.json: of each rank, and their mean.
//
// Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "common/base/step_shares.h"
#include "launcher/core/job/attempt_history.h"

namespace muster::launcher {

StepShares mean_profile(const AttemptHistory& attempt);
// null if no rank reported its steps. docs/reference/formats.md describes the fields.
nlohmann::ordered_json profile_json(const AttemptHistory& attempt);

}  // namespace muster::launcher
