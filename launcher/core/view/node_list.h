// The nodes of a running job, for those who ask: made by its launcher, sent over the control socket as one
// line of JSON, shown by `launch nodes`.
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
  std::string host;          // as it was given; empty: the launcher's
  std::int32_t workers = 0;  // in the attempt, or that it may have
  std::string state;         // "takes part", "waits", "is coming" or "absent"
};
struct NodeList {
  std::string job_id;
  std::int32_t most_nodes = 0;  // that may take part
  std::vector<NodeLine> nodes{};
};

NodeList list_nodes(const Plan& plan, const Fleet& fleet, const Job& job);

// One line, its newline included.
std::string node_list_as_line(const NodeList& list);
Expected<NodeList> parse_node_list(std::string_view line);
std::string node_list_as_text(const NodeList& list);

}  // namespace muster::launcher
