// What one rank of a pipeline computes, and what it exchanges with each of the others for it, worked out once
// from the schedule.
//
// Sends and receives follow from what is computed, so those that a schedule names are left out. Between two
// ranks messages go in the order in which their sender computes them, so the receiver can post its receives
// ahead. Plain values, without LibTorch.
#pragma once

#include <vector>

#include "common/pipeline/schedule.h"

namespace muster {

// What a stage gets from another: of kForward its inputs, from the stage before; of kBackward the gradients
// of its outputs, from the stage behind.
struct StageMessage {
  Op op = Op::kForward;
  int stage = 0;  // that gets it
  int microbatch = 0;
  bool operator==(const StageMessage&) const = default;
};

struct Channel {
  int peer = 0;  // rank in the schedule
  std::vector<StageMessage> in;
  std::vector<StageMessage> out;
  // Of each of `in`: how many of `out`, the first ones, have arrived whenever this one has.
  std::vector<int> arrived;
};

struct ExchangePlan {
  std::vector<Instruction> computes;
  std::vector<Channel> channels;  // to each rank that there is something to exchange with, ascending
};

// `forward_only`: as an evaluation. The rank is one of the schedule's, which check_schedule() has found good.
ExchangePlan make_exchange_plan(const Schedule& schedule, int rank, bool forward_only);

}  // namespace muster
