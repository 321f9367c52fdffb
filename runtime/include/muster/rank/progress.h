// Progress reports to the launcher, and notices from it, for a program with a training loop and checkpoints
// of its own. A Checkpointer does all this already.
//
//   std::int64_t step = load(muster::resume_step().value_or(0));
//   while (train_one_step()) {
//     muster::step(++step);
//     const bool leave = muster::all_reduce(job, muster::preemption_noticed(), muster::ReduceOp::kMax);
//     if ((leave || step % 100 == 0) && save(step) && job.rank() == 0) muster::committed(step);
//     if (leave) throw muster::Preempted("preempted: step " + std::to_string(step) + " is saved");
//   }
//
// All functions concern this process's Job and throw std::logic_error before init(). If a step
// is negative, they throw std::invalid_argument. They do nothing without a launcher. They do not block,
// except that committed() waits up to 5 s for the agent after a notice. Any thread can call them. For long
// work between two steps, see section.h.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace muster {

// Facts about a step, for people who watch the job with `launch top`.
struct StepNumbers {
  std::optional<double> loss{};
  std::int64_t samples = 0;  // on this rank; 0: unknown
};
// Describes the step that this program or its Checkpointer reports next.
void describe_step(const StepNumbers& numbers);

// Reports that `done` steps are done. After the first call, the launcher treats missing steps as a hang. The
// report travels with the heartbeat, so calling this in every step is cheap.
void step(std::int64_t done);

// Reports that the checkpoint of this step is complete on all ranks; call it on one rank.
void committed(std::int64_t step);

// Reports a metric's value at a step to whoever compares trainings, such as a sweep of hyperparameters:
//
//   muster::report("val_loss", evaluate(model), step);
//
// The value may be NaN or infinite. Every report reaches the launcher, in order. Throws std::invalid_argument
// for an invalid name. A name begins with a letter or `_`, continues with letters, digits,
// `_`, `/`, `.` or `-`, and has at most 128 characters.
void report(std::string_view name, double value, std::int64_t step);

// Returns the newest step that was committed before this start of the program. At the first start, returns
// nothing.
std::optional<std::int64_t> resume_step();

// Returns true once the launcher has given notice that this rank must leave soon, for example because its
// machine is taken away. The first call tells the launcher that the program can save and leave in time:
// before the launcher stops workers, it gives notice only to programs that have called this function. Ranks
// see the notice at different steps, so they must agree on the step at which they leave.
bool preemption_noticed();

// The error of a rank that leaves because its machine is taken away, after all ranks have saved a checkpoint.
// If main does not catch it, the process ends with exit code 75, which the launcher expects after a notice.
class Preempted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace muster
