// Writes a ProcessIdentity into a JSON document, and reads it back. The fields are host, user, boot_id,
// pid_namespace, pid and start_ticks. Safe from any thread.
#pragma once

#include <nlohmann/json.hpp>

#include "common/base/process.h"

namespace muster {

void add_identity(nlohmann::ordered_json& document, const ProcessIdentity& process);
// Parses an identity. Throws nlohmann::json::exception if a field is missing, or if its type is wrong.
ProcessIdentity parse_identity(const nlohmann::json& document);

}  // namespace muster
