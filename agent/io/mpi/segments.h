// Where the MPI libraries of a node's ranks keep their shared memory: a directory in /dev/shm for each
// attempt, so that it can be removed however the ranks end.
//
// Its name contains job, node, the agent's incarnation, and attempt. In a common directory the ranks of two
// agents on one host would take each other's memory for their own, because its name contains only the host's.
// Touches the file system only.
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

// Makes the directory, mode 0700, and returns its path. Removes those of earlier attempts of the same agent.
Expected<std::string> make_segments_directory(const SegmentsOwner& owner, Attempt attempt);
// Removes the directories of all of that agent's attempts.
void remove_segments(const SegmentsOwner& owner);
// Removes those of the node's agents with an incarnation below this one; nullopt: of all.
void remove_segments_below(const std::string& job, NodeId node, std::optional<Incarnation> below);

}  // namespace muster::agent
