#include "common/wire/process_identity.h"

#include "common/wire/json.h"

namespace muster {

void add_identity(nlohmann::ordered_json& document, const ProcessIdentity& process) {
  document["host"] = process.host;
  document["user"] = process.user;
  document["boot_id"] = process.boot_id;
  document["pid_namespace"] = process.pid_namespace;
  document["pid"] = process.pid;
  document["start_ticks"] = process.start_ticks;
}

ProcessIdentity parse_identity(const nlohmann::json& document) {
  return {.host = document.at("host"),
          .user = document.at("user"),
          .boot_id = document.at("boot_id"),
          .pid_namespace = document.at("pid_namespace"),
          .pid = whole_number<std::int64_t>(document.at("pid")),
          .start_ticks = whole_number<std::int64_t>(document.at("start_ticks"))};
}

}  // namespace muster
