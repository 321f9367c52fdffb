// Makes and removes directories in /dev/shm, one for each attempt. In them the MPI libraries of a node's
// ranks keep their shared memory. So the memory can be removed, no matter how the ranks end.
//
// Some libraries keep their memory in /dev/shm itself, no matter what they are told (MPICH, Intel MPI, PSM2,
// PSM3). If their ranks are killed, this memory stays. So the attempt's directory gets a symbolic link to
// each such file that a rank has mapped. The file is removed with the directory.
//
// The name of a directory contains the job, the node, the agent's incarnation and the attempt. Two agents on
// one host must not share a directory. The libraries name their memory after the host only. So in a shared
// directory the ranks of one agent would use the memory of the other agent's ranks.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/base/ids.h"

namespace muster::agent {

struct SegmentsOwner {
  std::string job;
  NodeId node;
  Incarnation incarnation;
};

// Makes the directory, with mode 0700, and returns its path. Also removes the directories of the agent's
// earlier attempts.
Expected<std::string> make_segments_directory(const SegmentsOwner& owner, Attempt attempt);
// Returns whether `path` has a name that an MPI library gives to its shared memory in /dev/shm.
bool is_segment_of_mpi(std::string_view path);
// Makes links to these files in the attempt's directory. Call this only with files that ranks of the attempt
// have mapped.
void link_segments(const std::string& directory, const std::set<std::string>& paths);
// Removes the directories that this agent has made for its attempts, and the files that their links name.
void remove_segments(const SegmentsOwner& owner);
// Removes the directories of some agents of the node: those whose incarnation is below `below`. If `below` is
// empty, removes the directories of all agents of the node.
void remove_segments_below(const std::string& job, NodeId node, std::optional<Incarnation> below);

}  // namespace muster::agent
