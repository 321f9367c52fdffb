// A pipeline schedule as data: what each rank does, in which order.
//
// The model is split into stages, the batch into microbatches; a rank has one stage or several (chunks). A
// schedule is one list of instructions per rank. simulated_schedule.h computes from it when everything is
// done, and checked_schedule.h whether it can be done. Plain values, without LibTorch: the launcher shows
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
  kBackwardInput,   // only the gradient of the input, which the stage before waits for
  kBackwardWeight,  // only the gradients of the weights, which are not needed before the step
  kSendForward,     // an activation, to the next stage
  kReceiveForward,
  kSendBackward,  // the gradient of an input, to the stage before
  kReceiveBackward,
  kReduceGrad,  // over the replicas of the stage, after its last gradient
  kStep,        // the stage's optimizer
};

struct Instruction {
  Op op = Op::kForward;
  int stage = 0;
  int microbatch = 0;      // kNone for kReduceGrad and kStep
  bool with_next = false;  // a forward that runs together with the backward after it
  static constexpr int kNone = -1;
  bool operator==(const Instruction&) const = default;
};

bool is_compute(Op op);
bool is_backward(Op op);  // whole or in part
// True for the backward of the weights, alone or as part of a whole one: the microbatch's activations are not
// needed after it.
bool is_last_backward(Op op);

// Returns the instruction of another stage that computes the input of `compute`: the forward in the stage
// before, or the backward in the next stage, which the schedule may contain as kBackwardInput. Nothing if the
// model ends there or no other stage is involved.
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
// Returns the text of each; two that run together are "(0F3;7B1)OVERLAP_F_B".
std::vector<std::string> texts_of(const std::vector<Instruction>& instructions);

// One line per rank, in the file format of torch's pipeline schedules.
std::string schedule_as_csv(const Schedule& schedule);
// Reads the format of schedule_as_csv(). Empty cells are idle and ignored. The numbers of stages and
// microbatches are the highest that occur. kInvalidArgument names line and cell.
Expected<Schedule> parse_schedule(std::string_view csv);

// Returns the rank of each stage, found by the stage's first forward; kNone if there is none.
std::vector<int> ranks_of_stages(const Schedule& schedule);

}  // namespace muster
