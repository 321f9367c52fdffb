// Writes a ProcessIdentity into a JSON document, as the fields host, user, boot_id, pid_namespace, pid and
// start_ticks, and reads it back. Safe from any thread.
#pragma once

#include <nlohmann/json.hpp>

#include "common/base/process.h"

namespace muster {

void add_identity(nlohmann::ordered_json& document, const ProcessIdentity& process);
// Throws nlohmann::json::exception if a field is missing or of another type.
ProcessIdentity parse_identity(const nlohmann::json& document);

}  // namespace muster
