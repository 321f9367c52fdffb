// Replays the computation of one rank of a pipeline in a step, without the other ranks: the same instructions
// in the same order, on tensors that exist already.
//
// It measures the times for simulating a schedule, and the memory of a microbatch. All ranks replay at once,
// so that a stage is measured while the others are busy.
#pragma once

#include <map>
#include <muster/muster.h>
#include <torch/torch.h>
#include <vector>

#include "common/pipeline/simulated_schedule.h"
#include "runtime/pipeline/exchange_plan.h"
#include "runtime/pipeline/stage_runner.h"

namespace muster::bench {

class Replay {
 public:
  // `input` and `target` are one microbatch.
  Replay(const Schedule& schedule, const std::vector<PipelineStage>& stages, const PipelineLoss& loss,
         const at::Tensor& input, const at::Tensor& target);

  struct Times {
    std::map<int, StageTimes> stages;  // milliseconds, means over the microbatches
    double all = 0;                    // of the whole step
  };
  Times run();

  // The growth of `bytes_now` by each stage's forward.
  template <class Bytes>
  std::map<int, double> bytes_of_microbatch(Bytes bytes_now) {
    std::map<int, double> bytes;
    for (auto& [stage, runner] : runners_) {
      const double before = bytes_now();
      runner.forward(0, {inputs_of(stage)}, target_, pass_);
      bytes[stage] = bytes_now() - before;
      runner.forget();
    }
    return bytes;
  }

 private:
  at::Tensor inputs_of(int stage) const;

  PipelineLoss loss_;
  at::Tensor input_;
  at::Tensor target_;
  int stages_;
  StageRunner::Pass pass_;
  std::vector<Instruction> computes_;
  std::map<int, StageKinds> kinds_;  // the runners fill them
  std::map<int, StageRunner> runners_;
};

}  // namespace muster::bench
