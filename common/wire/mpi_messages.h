// The messages between the MPI servers of an attempt's agents, which the launcher passes on. The servers
// gather data, ask for one rank's data, and publish and look up names.
//
// docs/protocol.md describes when they are sent. Only for MPI jobs.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/ids.h"
#include "common/wire/bytes.h"
#include "common/wire/words.h"

namespace muster::wire {

// The most bytes of data that one message can have.
constexpr std::size_t kMostMpiBytes = std::size_t{3} << 20;

// Agent to launcher.
struct MpiAsked {
  MpiVerb verb = MpiVerb::kFence;
  std::uint64_t number = 0;  // the answer has the number of its question, a withdraw that of its fence
  std::string key{};         // fence, withdraw: which fence; publish, look_up, unpublish: the name
  std::int32_t count = 0;    // fence: the number of nodes that take part
  Rank wanted{};             // fetch: the rank whose data is wanted
  NodeId node{};             // answer: the node that asked
  bool ok = false;  // answer: the data exists; publish: for one reader only; look_up: wait for the name
  Bytes text{};
};

// Launcher to agent: the answer, or another agent's question (fetch).
struct MpiTold {
  MpiVerb verb = MpiVerb::kAnswer;
  std::uint64_t number = 0;
  Rank wanted{};    // fetch: the rank whose data is wanted
  NodeId node{};    // fetch: the node that asks
  bool ok = false;  // answer: the request has succeeded
  Bytes text{};
};

}  // namespace muster::wire
