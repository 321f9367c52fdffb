// The directories of a sweep's trials: SWEEP/trials/0007, with the trial's parameters, checkpoints and runs.
//
// Blocking. Errors are one line that names the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "launcher/core/sweep/history/history.h"

namespace muster::launcher::sweep {

std::string trial_directory(const std::string& sweep_directory, std::int32_t trial);
std::string checkpoints_of(const std::string& trial_directory);

// Makes the trial's directory and params.json in it, if they are missing or old.
Status make_trial_directory(const std::string& directory, const Point& point);

// PBT: replaces the checkpoints in `mine` by those in `donors`, another trial's directory of checkpoints,
// which may be writing new ones. The files are linked, not copied. Does nothing if this was done before: a
// crash may repeat the call. A donor without checkpoints leaves none.
Status take_over_checkpoints(const std::string& mine, const std::string& donors, const Exploited& exploited);

}  // namespace muster::launcher::sweep
