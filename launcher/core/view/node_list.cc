#include "launcher/core/view/node_list.h"

#include "common/wire/json.h"
#include "launcher/core/text/table.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

std::string state_of(NodeId node, const Fleet& fleet, const Job& job) {
  switch (fleet.presence(node)) {
    case Fleet::Presence::kAbsent: return "absent";
    case Fleet::Presence::kComing: return "is coming";
    case Fleet::Presence::kThere: break;
  }
  return job.crew().find(node) != nullptr ? "takes part" : "waits";
}

}  // namespace

NodeList list_nodes(const Plan& plan, const Fleet& fleet, const Job& job) {
  NodeList list{.job_id = plan.job.job_id, .most_nodes = plan.most_nodes()};
  for (const NodeId node : fleet.nodes()) {
    const NodePlan* const member = job.crew().find(node);
    list.nodes.push_back(
        {.node = node,
         .host = plan.hosts.empty() ? "" : address_of(plan.hosts.at(static_cast<std::size_t>(node.value()))),
         .workers = member != nullptr ? member->worker_count : plan.room_of(node),
         .state = state_of(node, fleet, job)});
  }
  return list;
}

std::string node_list_as_line(const NodeList& list) {
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const NodeLine& each : list.nodes)
    nodes.push_back(
        {{"node", each.node.value()}, {"host", each.host}, {"workers", each.workers}, {"state", each.state}});
  const nlohmann::ordered_json json = {
      {"job_id", list.job_id}, {"max_nodes", list.most_nodes}, {"nodes", std::move(nodes)}};
  return json.dump() + "\n";
}

Expected<NodeList> parse_node_list(std::string_view line) {
  try {
    const nlohmann::json json = parse_shallow_json(line);
    NodeList list{.job_id = json.at("job_id"),
                  .most_nodes = whole_number<std::int32_t>(json.at("max_nodes"))};
    for (const nlohmann::json& node : json.at("nodes"))
      list.nodes.push_back({.node = NodeId(whole_number<std::int32_t>(node.at("node"))),
                            .host = node.at("host"),
                            .workers = whole_number<std::int32_t>(node.at("workers")),
                            .state = node.at("state")});
    return list;
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kCorrupt, "the launcher's answer cannot be read: {}", error.what());
  }
}

std::string node_list_as_text(const NodeList& list, std::size_t columns) {
  constexpr std::size_t kLeastOfHost = 20;
  std::vector<Row> rows;
  for (const NodeLine& each : list.nodes)
    rows.push_back({fmt::format("node{}", each.node), std::to_string(each.workers), each.state,
                    each.host.empty() ? "-" : each.host});
  return fmt::format(
      "{}: {}, at most {} take part\n\n{}", list.job_id, count_of(list.nodes.size(), "node"), list.most_nodes,
      table_text({{"NODE"}, {"WORKERS", true}, {"STATE"}, {"HOST", false, Narrow::kWrap, kLeastOfHost}},
                 std::move(rows), columns));
}

}  // namespace muster::launcher
