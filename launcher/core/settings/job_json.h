// The nodes of a job with their ranks and hosts, as JSON.
//
// Used in the plan that --dry-run prints, in job.json and in a job's status. Pure.
#pragma once

#include <vector>

#include "common/wire/json.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

inline nlohmann::ordered_json nodes_json(const std::vector<NodePlan>& nodes, const NodeNames& names) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const NodePlan& node : nodes) {
    json.push_back({{"node", node.node.value()},
                    {"first_rank", node.first_rank.value()},
                    {"worker_count", node.worker_count}});
    if (const std::string host = names.host_of(node.node); !host.empty()) json.back()["host"] = host;
  }
  return json;
}

// The inverse of nodes_json(). Throws nlohmann::json::exception if the JSON has another form.
inline std::vector<NodePlan> nodes_of(const nlohmann::json& json) {
  std::vector<NodePlan> nodes;
  for (const nlohmann::json& node : json) {
    nodes.push_back({NodeId(whole_number<std::int32_t>(node.at("node"))),
                     Rank(whole_number<std::int32_t>(node.at("first_rank"))),
                     whole_number<std::int32_t>(node.at("worker_count"))});
  }
  return nodes;
}
inline NodeNames names_of(const nlohmann::json& json) {
  std::map<NodeId, std::string> hosts;
  for (const nlohmann::json& node : json) {
    if (node.contains("host")) hosts[NodeId(whole_number<std::int32_t>(node.at("node")))] = node.at("host");
  }
  return NodeNames(std::move(hosts));
}

}  // namespace muster::launcher
