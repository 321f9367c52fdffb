// The list of the nodes of a running job. The job's launcher makes it, and sends it over the control socket
// as one line of JSON. `launch nodes` shows it.
//
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/fleet/fleet.h"
#include "launcher/core/job/job.h"

namespace muster::launcher {

struct NodeLine {
  NodeId node;
  std::string host;          // as given; empty: the launcher's machine
  std::int32_t workers = 0;  // its workers in the attempt; if it takes no part, its room
  std::string state;         // "takes part", "waits", "is coming" or "absent"
};
struct NodeList {
  std::string job_id;
  std::int32_t most_nodes = 0;  // that can take part
  std::vector<NodeLine> nodes{};
};

NodeList list_nodes(const Plan& plan, const Fleet& fleet, const Job& job);

// One line, including its newline.
std::string node_list_as_line(const NodeList& list);
Expected<NodeList> parse_node_list(std::string_view line);
// `columns` is the width of the terminal. 0 means that the table can have any width.
std::string node_list_as_text(const NodeList& list, std::size_t columns = 0);

}  // namespace muster::launcher
