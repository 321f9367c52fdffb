// Encodes events for a journal, and each decision as a line of text, so that two runs of the core can be
// compared.
//
// An agent's message is stored as its frame. Events and decisions contain no values of `--env`. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "launcher/core/job/job_events.h"

namespace muster::launcher {

nlohmann::json to_record(const Event& event);
// Reads an event from a record. If to_record() cannot have made the record, returns kCorrupt, with the
// reason.
Expected<Event> event_from(const nlohmann::json& record);
// "AgentSaid"
std::string_view name_of(const Event& event);

// Returns a text such as "Send: StopWorkers 8f1d02c4 to node3 (the attempt cannot succeed any more)". A
// message is shown as its name and a digest of its contents. A Welcome has no digest.
std::string text_of(const Decision& decision);

}  // namespace muster::launcher
