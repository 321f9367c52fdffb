// The messages that the MPI servers of an attempt's agents send to one another. The launcher passes them on.
// The servers use them to gather data, to ask for the data of one rank, and to publish and look up names.
//
// docs/protocol.md describes when they are sent. Only MPI jobs use them.
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

// A message of the launcher to an agent. It is the answer to a question of this agent, or a question of
// another agent (fetch).
struct MpiTold {
  MpiVerb verb = MpiVerb::kAnswer;
  std::uint64_t number = 0;
  Rank wanted{};    // fetch: the rank whose data is wanted
  NodeId node{};    // fetch: the node that asks
  bool ok = false;  // answer: the request has succeeded
  Bytes text{};
};

}  // namespace muster::wire
