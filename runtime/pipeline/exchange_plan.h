// The computations of one rank of a pipeline and its messages to and from the other ranks, derived once from
// the schedule.
//
// Sends and receives follow from the computations, so the plan ignores those that a schedule names. Messages
// between two ranks are in the order in which their sender computes them, so that the receiver can post its
// receives ahead. Plain values, without LibTorch.
#pragma once

#include <vector>

#include "common/pipeline/schedule.h"

namespace muster {

// A message to a stage. kForward: the stage's inputs, from the stage before it. kBackward: the gradients of
// the stage's outputs, from the stage after it.
struct StageMessage {
  Op op = Op::kForward;
  int stage = 0;  // the receiver
  int microbatch = 0;
  bool operator==(const StageMessage&) const = default;
};

struct Channel {
  int peer = 0;  // rank in the schedule
  std::vector<StageMessage> in;
  std::vector<StageMessage> out;
  // For each message of `in`: at least how many of the first messages of `out` have arrived before it.
  std::vector<int> arrived;
};

struct ExchangePlan {
  std::vector<Instruction> computes;
  std::vector<Channel> channels;  // one for each rank with which this rank exchanges messages; ascending
};

// `forward_only`: for an evaluation. `schedule` has passed check_schedule(); `rank` is one of its ranks.
ExchangePlan make_exchange_plan(const Schedule& schedule, int rank, bool forward_only);

}  // namespace muster
