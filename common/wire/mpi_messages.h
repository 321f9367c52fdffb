// What the MPI servers of an attempt's agents have to settle among themselves, by way of the launcher: they
// gather data, ask for one rank's, and find each other by published names.
//
// docs/protocol.md describes the conversation, messages.h how messages travel. Only of jobs with --mpi.
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
  std::uint64_t number = 0;  // of the question; its answer has the same. withdraw: of the fence's
  std::string key{};         // fence, withdraw: which one; publish, look_up, unpublish: the name
  std::int32_t count = 0;    // fence: of so many nodes
  Rank wanted{};             // fetch: whose data
  NodeId node{};             // answer: who asked
  bool ok = false;  // answer: there is some. publish: who reads it first has it. look_up: waits for it
  Bytes text{};
};

// Launcher to agent: the answer, or another agent's question (fetch).
struct MpiTold {
  MpiVerb verb = MpiVerb::kAnswer;
  std::uint64_t number = 0;
  Rank wanted{};    // fetch: whose data
  NodeId node{};    // fetch: who asked
  bool ok = false;  // answer: the question could be settled
  Bytes text{};
};

}  // namespace muster::wire
