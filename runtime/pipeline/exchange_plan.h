// Derives from a schedule what one rank computes, and its messages to and from other ranks.
//
// The messages follow from the computations, so the plan ignores the instructions of a schedule that send or
// receive. Messages from one rank to another have the order in which the sender computes them. So the
// receiver can call recv() for a message before the message has been sent. The structs are plain values
// without LibTorch.
#pragma once

#include <vector>

#include "common/pipeline/schedule.h"

namespace muster {

// A message to a stage. With kForward, it has the stage's inputs and comes from the stage before it. With
// kBackward, it has the gradients of the stage's outputs and comes from the stage after it.
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
  // arrived[i] is the number of messages of `out` that the peer has certainly received by the time that in[i]
  // arrives here.
  std::vector<int> arrived;
};

struct ExchangePlan {
  std::vector<Instruction> computes;
  std::vector<Channel> channels;  // one for each rank with which this rank exchanges messages; ascending
};

// Set `forward_only` for an evaluation. `schedule` must have passed check_schedule().
ExchangePlan make_exchange_plan(const Schedule& schedule, int rank, bool forward_only);

}  // namespace muster
