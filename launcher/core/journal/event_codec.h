// Events as they stand in a journal, and decisions as a line each, by which two runs of the core are
// compared.
//
// An agent's message stands there as the frame that carried it. What `--env` gave is in neither. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "launcher/core/job/job_events.h"

namespace muster::launcher {

nlohmann::json to_record(const Event& event);
// kCorrupt, with what is wrong, if to_record() cannot have made it.
Expected<Event> event_from(const nlohmann::json& record);
// "AgentSaid"
std::string_view name_of(const Event& event);

// "Send: StopWorkers 8f1d02c4 to node3 (the attempt cannot succeed any more)": a message by its name and the
// digest of what it says; of Welcome there is no digest.
std::string text_of(const Decision& decision);

}  // namespace muster::launcher
