// A pipeline schedule as data: what each rank does, in which order.
//
// The model is cut into stages, the batch into microbatches; a rank has one stage or several (chunks). A list
// of instructions a rank says all; the others follow from it: when everything is done (simulated_schedule.h)
// and whether it can be done (checked_schedule.h). Plain values, without LibTorch: the launcher shows
// schedules, and the runtime runs them. The text form is that of torch.distributed.pipelining: 0F3 is the
// forward of microbatch 3 in stage 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace muster {

enum class Op : std::uint8_t {
  kForward,
  kBackward,        // as a whole: gradients of input and weights
  kBackwardInput,   // the gradient of the input alone, which the stage before waits for
  kBackwardWeight,  // the gradients of the weights, which nobody waits for until the step
  kSendForward,     // an activation, to the stage after
  kReceiveForward,
  kSendBackward,  // the gradient of an input, to the stage before
  kReceiveBackward,
  kReduceGrad,  // over the replicas of the stage, when its last gradient is there
  kStep,        // the stage's optimizer
};

struct Instruction {
  Op op = Op::kForward;
  int stage = 0;
  int microbatch = 0;      // of kReduceGrad and kStep: kNone
  bool with_next = false;  // together with the one that follows, forward of one and backward of another
  static constexpr int kNone = -1;
  bool operator==(const Instruction&) const = default;
};

bool is_compute(Op op);
bool is_backward(Op op);  // in whole or in part
// Of the weights, alone or with the rest: after it nothing of the microbatch's activations is needed.
bool is_last_backward(Op op);

// What another stage has to compute for it: the forward in the stage before, the backward in the stage
// behind, which may be there as its kBackwardInput. Nothing: the model ends there, or it needs nothing of
// another.
std::optional<Instruction> input_of(const Instruction& compute, int stages);

struct Schedule {
  std::string name;
  int stages = 0;
  int microbatches = 0;
  std::vector<std::vector<Instruction>> ranks;
  bool operator==(const Schedule&) const = default;
};

// "0F3", "1SEND_B0", "2REDUCE_GRAD".
std::string text_of(const Instruction& instruction);
// The text of each, and of two that run together "(0F3;7B1)OVERLAP_F_B".
std::vector<std::string> texts_of(const std::vector<Instruction>& instructions);

// A line a rank, as torch's pipeline schedules are kept in files.
std::string schedule_as_csv(const Schedule& schedule);
// Reads it; empty cells are idle, and mean nothing. Stages and microbatches are as many as are named.
// kInvalidArgument names line and cell.
Expected<Schedule> parse_schedule(std::string_view csv);

// The rank of each stage, by its first forward; kNone where there is none.
std::vector<int> ranks_of_stages(const Schedule& schedule);

}  // namespace muster
