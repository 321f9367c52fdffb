#include "launcher/core/view/events.h"

#include <cmath>
#include <iterator>

#include "common/wire/json.h"

namespace muster::launcher {

namespace {

nlohmann::ordered_json begin_of_line(std::string_view event, double time) {
  return {{"time", std::round(time * 1e6) / 1e6}, {"event", event}};
}

// Workers' texts may not be UTF-8.
std::string line_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string event_line(const Record& what, double time, std::optional<TimePoint> at) {
  nlohmann::ordered_json json = begin_of_line(what.event, time);
  if (what.attempt != Attempt()) json["attempt"] = what.attempt.value();
  if (what.rank) json["rank"] = what.rank->value();
  if (what.node) json["node"] = what.node->value();
  if (!what.host.empty()) json["host"] = what.host;
  if (what.worker_count > 0) json["workers"] = what.worker_count;
  if (!what.text.empty()) json["text"] = what.text;
  if (at) json["monotonic_ns"] = to_ns(*at);
  return line_of(json);
}

std::string clock_line(NodeId node, const std::string& host, const ClockOffset::Answer& answer, double time) {
  nlohmann::ordered_json json = begin_of_line("clock", time);
  json["node"] = node.value();
  if (!host.empty()) json["host"] = host;
  json["monotonic_ns"] = answer.at_ns;
  json["ahead_ns"] = answer.offset_ns;
  json["round_trip_ns"] = answer.round_trip_ns;
  return line_of(json);
}

void StartedRanks::add(const nlohmann::json& event) {
  const NodePlan plan{NodeId(whole_number<std::int32_t>(event.at("node"))),
                      Rank(whole_number<std::int32_t>(event.at("rank"))),
                      whole_number<std::int32_t>(event.at("workers"))};
  nodes_[whole_number<std::uint64_t>(event.at("attempt"))][plan.first_rank] = {plan, event.value("host", "")};
}

const StartedRanks::Node* StartedRanks::find(std::uint64_t attempt, Rank rank) const {
  const auto nodes = nodes_.find(attempt);
  if (nodes == nodes_.end()) return nullptr;
  const auto after = nodes->second.upper_bound(rank);
  if (after == nodes->second.begin()) return nullptr;
  const Node& node = std::prev(after)->second;
  return node.plan.has(rank) ? &node : nullptr;
}

}  // namespace muster::launcher
