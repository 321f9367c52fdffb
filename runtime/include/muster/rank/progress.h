// What a program with a training loop and checkpoints of its own tells the launcher, and hears from it. With
// a Checkpointer all this is done already.
//
//   std::int64_t step = load(muster::resume_step().value_or(0));
//   while (train_one_step()) {
//     muster::step(++step);
//     const bool leave = muster::all_reduce(job, muster::preemption_noticed(), muster::ReduceOp::kMax);
//     if ((leave || step % 100 == 0) && save(step) && job.rank() == 0) muster::committed(step);
//     if (leave) throw muster::Preempted("preempted: step " + std::to_string(step) + " is saved");
//   }
//
// All are about this process's Job: std::logic_error before there is one. They never block, and tell nobody
// where there is no launcher. Safe from any thread. What takes long between two steps: section.h.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>

namespace muster {

// Of a step: for people who watch the job with `launch top`.
struct StepNumbers {
  std::optional<double> loss{};
  std::int64_t samples = 0;  // on this rank; 0: not said
};
// Of the step that this program, or its Checkpointer, tells next.
void describe_step(const StepNumbers& numbers);

// So many steps are done. From the first call on the launcher misses steps that do not come. A step also
// travels with the heartbeat, so this may be called in every one.
void step(std::int64_t done);

// On one rank: a checkpoint of this step is complete, on all of them.
void committed(std::int64_t step);

// The step that was committed last before this start; none at a first start.
std::optional<std::int64_t> resume_step();

// This machine goes away soon. Who asks can save and leave in time, so only from the first call on the
// launcher gives notice before it stops workers. Ranks hear of it at different steps: they must agree on one.
bool preemption_noticed();

// This rank got notice that its machine is taken away, and all have saved a checkpoint. Uncaught, it ends the
// process with exit code 75, which the launcher expects then.
class Preempted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace muster
