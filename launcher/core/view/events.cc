#include "launcher/core/view/events.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace muster::launcher {

std::string event_line(const Record& what, double time) {
  nlohmann::ordered_json json = {{"time", std::round(time * 1e6) / 1e6}, {"event", what.event}};
  if (what.attempt != Attempt()) json["attempt"] = what.attempt.value();
  if (what.rank) json["rank"] = what.rank->value();
  if (what.node) json["node"] = what.node->value();
  if (!what.host.empty()) json["host"] = what.host;
  if (what.worker_count > 0) json["workers"] = what.worker_count;
  if (!what.text.empty()) json["text"] = what.text;
  // What workers wrote need not be UTF-8.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace muster::launcher
