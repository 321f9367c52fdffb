// How the MPI servers of an attempt's agents work together, through the launcher: they gather data, ask for
// one rank's data, and find each other by published names.
//
// docs/protocol.md describes the conversation, messages.h how messages travel. Only for jobs with --mpi.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/wire/bytes.h"
#include "common/wire/words.h"

namespace muster::wire {

// The most data that one message may carry; a server does not send more.
constexpr std::size_t kMostMpiBytes = std::size_t{3} << 20;

// Agent to launcher.
struct MpiAsked {
  MpiVerb verb = MpiVerb::kFence;
  std::uint64_t number = 0;  // of the question; its answer has the same. withdraw: of the fence
  std::string key{};         // fence, withdraw: which fence; publish, look_up, unpublish: the name
  std::int32_t count = 0;    // fence: the number of nodes that take part
  Rank wanted{};             // fetch: the rank whose data is wanted
  NodeId node{};             // answer: the node that asked
  bool ok = false;  // answer: the data exists. publish: for one reader only. look_up: wait for the name
  Bytes text{};
};

// Launcher to agent: the answer, or another agent's question (fetch).
struct MpiTold {
  MpiVerb verb = MpiVerb::kAnswer;
  std::uint64_t number = 0;
  Rank wanted{};    // fetch: the rank whose data is wanted
  NodeId node{};    // fetch: the node that asks
  bool ok = false;  // answer: the question was settled
  Bytes text{};
};

}  // namespace muster::wire
