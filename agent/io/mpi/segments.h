// Makes and removes the directories in which the MPI libraries of a node's ranks keep their shared memory.
// Each attempt has one, in /dev/shm, so that the memory can be removed however the ranks end.
//
// The directory's name contains the job, the node, the agent's incarnation and the attempt. Two agents on one
// host must not share a directory: the libraries name their memory by the host only, so ranks would use
// memory of the other agent's ranks.
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
// Removes the directories of those agents of the node whose incarnation is below `below`. Without `below`,
// removes the directories of all agents of the node.
void remove_segments_below(const std::string& job, NodeId node, std::optional<Incarnation> below);

}  // namespace muster::agent
