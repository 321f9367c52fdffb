// Where the MPI libraries of a node's ranks keep their shared memory: a directory in /dev/shm for each
// attempt, so that it can be removed however the ranks end.
//
// The directory's name contains job, node, the agent's incarnation, and attempt. In a common directory the
// ranks of two agents on one host would take each other's memory for their own, because the name of such
// memory contains only the host's name. Touches the file system only.
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

// Makes the directory, mode 0700, and returns its path. Removes the agent's directories of earlier attempts.
Expected<std::string> make_segments_directory(const SegmentsOwner& owner, Attempt attempt);
// Removes the directories of all of that agent's attempts.
void remove_segments(const SegmentsOwner& owner);
// Removes the directories of the node's agents with an incarnation below `below`. Without `below`: of all the
// node's agents.
void remove_segments_below(const std::string& job, NodeId node, std::optional<Incarnation> below);

}  // namespace muster::agent
