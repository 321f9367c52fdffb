// Names of nodes for people. A name has the number of the node, and the name of its host if the nodes are on
// hosts. Pure.
#pragma once

#include <fmt/core.h>
#include <map>
#include <string>
#include <utility>

#include "common/base/ids.h"

namespace muster::launcher {

class NodeNames {
 public:
  NodeNames() = default;
  // `hosts` has the host of each node. If it is empty, all nodes are on this machine.
  explicit NodeNames(std::map<NodeId, std::string> hosts) : hosts_(std::move(hosts)) {}

  void add(NodeId node, std::string host) { hosts_[node] = std::move(host); }
  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(hosts_);
  }

  // "" if all nodes are on this machine.
  std::string host_of(NodeId node) const {
    const auto found = hosts_.find(node);
    return found == hosts_.end() ? "" : found->second;
  }
  // "node3", or "node3 (h4)"
  std::string of(NodeId node) const {
    const std::string host = host_of(node);
    return fmt::format("node{}{}", node, host.empty() ? "" : fmt::format(" ({})", host));
  }
  // Returns a text that can be put in brackets, such as "node3" or "node3, h4".
  std::string within(NodeId node) const {
    const std::string host = host_of(node);
    return fmt::format("node{}{}", node, host.empty() ? "" : ", " + host);
  }
  // "rank 2 (node1)", or "rank 2 (node1, h2)"
  std::string of(Rank rank, NodeId node) const { return fmt::format("rank {} ({})", rank, within(node)); }

 private:
  std::map<NodeId, std::string> hosts_;
};

}  // namespace muster::launcher
