// A pipeline schedule says what each rank does, and in which order.
//
// The model is split into stages, and the batch into microbatches. A rank has one stage or several (chunks).
// A schedule is one list of instructions per rank. simulated_schedule.h computes when each instruction runs;
// checked_schedule.h checks that a schedule can run. The structs are plain values without LibTorch: the
// launcher shows schedules, and the runtime runs them. The text form is that of torch.distributed.pipelining:
// 0F3 is the forward of microbatch 3 in stage 0.
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
  kBackward,        // the whole backward: gradients of input and weights
  kBackwardInput,   // only the gradient of the input, which the stage before waits for
  kBackwardWeight,  // only the gradients of the weights, which are not needed before the step
  kSendForward,     // an activation, to the next stage
  kReceiveForward,
  kSendBackward,  // the gradient of an input, to the stage before
  kReceiveBackward,
  kReduceGrad,  // sums the gradients over the replicas of the stage, after the stage's last gradient
  kStep,        // the stage's optimizer
};

struct Instruction {
  Op op = Op::kForward;
  int stage = 0;
  int microbatch = 0;      // kNone for kReduceGrad and kStep
  bool with_next = false;  // true for a forward that runs together with the next instruction, a backward
  static constexpr int kNone = -1;
  bool operator==(const Instruction&) const = default;
};

bool is_compute(Op op);
bool is_backward(Op op);  // a whole backward, or one of its two parts
// Returns true for kBackward and kBackwardWeight. After one of them the stage no longer needs the
// microbatch's activations.
bool is_last_backward(Op op);

// Returns the instruction of another stage whose result is the input of `compute`. For a forward pass, it is
// the forward pass of the stage before. For kBackward and kBackwardInput, it is kBackward of the next stage.
// (The result is kBackward even if the next stage has kBackwardInput in the schedule.) Returns nothing if
// there is no such stage, or if `compute` needs no other stage.
std::optional<Instruction> input_of(const Instruction& compute, int stages);

struct Schedule {
  std::string name;
  int stages = 0;
  int microbatches = 0;
  std::vector<std::vector<Instruction>> ranks;
  bool operator==(const Schedule&) const = default;
};

// Returns a text such as "0F3", "1SEND_B0" or "2REDUCE_GRAD".
std::string text_of(const Instruction& instruction);
// Returns the text of each instruction. Two instructions that run together have one text:
// "(0F3;7B1)OVERLAP_F_B".
std::vector<std::string> texts_of(const std::vector<Instruction>& instructions);

// Returns one line per rank, in the file format of torch's pipeline schedules.
std::string schedule_as_csv(const Schedule& schedule);
// Reads the format of schedule_as_csv(). Empty cells, which stand for idle time, are ignored. The numbers of
// stages and microbatches follow from the highest indices. Returns kInvalidArgument if the text is wrong. The
// message names the line and the cell.
Expected<Schedule> parse_schedule(std::string_view csv);

// Returns for each stage the first rank that has a forward pass of the stage. It is kNone if no rank has one.
std::vector<int> ranks_of_stages(const Schedule& schedule);

}  // namespace muster
