// Where the MPI libraries of a node's ranks keep the memory that they share: a directory in /dev/shm for each
// attempt, by which it is removed whatever way the ranks end.
//
// Its name says job, node, the agent's incarnation, and attempt. Without it ranks of two agents on one host
// would take each other's memory for their own: its name has the host's only. Touches the file system only.
#pragma once

#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/base/ids.h"

namespace muster::agent {

struct SegmentsOwner {
  std::string job;
  NodeId node;
  Incarnation incarnation;
};

// Makes it, mode 0700, and gives its path. What an earlier attempt of the same agent left is removed.
Expected<std::string> make_segments_directory(const SegmentsOwner& owner, Attempt attempt);
// With all of that agent's attempts.
void remove_segments(const SegmentsOwner& owner);
// Of all incarnations of the node's agent below this one; nullopt: of all.
void remove_segments_below(const std::string& job, NodeId node, std::optional<Incarnation> below);

}  // namespace muster::agent
