// Derives from a schedule what one rank computes, and its messages to and from other ranks.
//
// The messages follow from the computations, so the plan ignores the sends and receives in a schedule.
// Messages between two ranks are in the order in which the sender computes them. So the receiver can post its
// receives ahead. The structs are plain values without LibTorch.
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
  // For each message of `in`: how many messages of `out` the peer has certainly received by the time that
  // this message arrives.
  std::vector<int> arrived;
};

struct ExchangePlan {
  std::vector<Instruction> computes;
  std::vector<Channel> channels;  // one for each rank with which this rank exchanges messages; ascending
};

// Set `forward_only` for an evaluation. `schedule` must have passed check_schedule().
ExchangePlan make_exchange_plan(const Schedule& schedule, int rank, bool forward_only);

}  // namespace muster
