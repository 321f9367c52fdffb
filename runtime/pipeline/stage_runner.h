// Forward and backward of one stage, a microbatch at a time, and what is kept between the two.
//
// Does not know other stages: it gets tensors and gives tensors. For the training thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <map>
#include <memory>
#include <muster/pipeline/pipeline_schedule.h>
#include <muster/pipeline/pipeline_stage.h>
#include <vector>

#include "runtime/pipeline/exchange.h"
#include "runtime/pipeline/weight_grads.h"

namespace muster {

class StageRunner {
 public:
  // What does not change with the microbatch.
  struct Pass {
    std::uint64_t seed = 0;  // of the step
    bool trains = true;
    double loss_scale = 1;  // of each microbatch's loss, before its backward
  };
  // `loss` and `kinds` outlive it; find_kinds() fills these.
  StageRunner(const PipelineStage& stage, const PipelineLoss& loss, StageKinds& kinds, bool recompute);

  const PipelineStage& stage() const { return stage_; }
  // From one forward of empty inputs, after which generators and buffers are as before.
  void find_kinds(const std::vector<TensorKind>& inputs, const Pass& pass);

  // `target`: of the last stage. Returns what the next stage takes; of the last one its outputs.
  // std::invalid_argument if these are not of the kinds that they were of.
  std::vector<at::Tensor> forward(int microbatch, std::vector<at::Tensor> inputs, const at::Tensor& target,
                                  const Pass& pass);
  // The last stage's, of the microbatches so far in their order.
  std::vector<at::Tensor> take_losses();

  // The gradients of the outputs that need one (of the last stage: none) give those of the inputs that need
  // one.
  std::vector<at::Tensor> backward(int microbatch, const std::vector<at::Tensor>& gradients,
                                   const Pass& pass);
  // After it: the gradients of the weights of separable layers; those of others came with it.
  void backward_weight(int microbatch);
  void forget();  // what is held, after an error

 private:
  struct Held {
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;  // with their history; none if they are computed again
    at::Tensor target;
    at::Tensor loss;
    std::unique_ptr<WeightGrads> weights;
  };
  void compute(Held& held, const Pass& pass, int microbatch);
  std::vector<at::Tensor> forward_of(const std::vector<at::Tensor>& inputs) const;
  void check_outputs(const std::vector<at::Tensor>& outputs) const;

  PipelineStage stage_;
  const PipelineLoss& loss_;
  StageKinds& kinds_;
  bool recompute_;
  std::map<int, Held> held_;
  std::map<int, std::unique_ptr<WeightGrads>> weights_;  // after backward(), before backward_weight()
  std::map<int, at::Tensor> losses_;
};

TensorKind kind_of_tensor(const at::Tensor& tensor);
// "Float [8, 3], Long [8]".
std::string text_of(const std::vector<TensorKind>& kinds);

}  // namespace muster
