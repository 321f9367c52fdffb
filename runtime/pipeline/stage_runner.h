// Runs forward and backward of one stage, a microbatch at a time, and keeps the tensors between the two.
//
// A StageRunner does not communicate with other stages: it takes and returns tensors. Only the training
// thread uses it.
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
  // Settings for all microbatches of a step.
  struct Pass {
    std::uint64_t seed = 0;  // of the step
    bool trains = true;
    double loss_scale = 1;  // multiplies each microbatch's loss before its backward pass
  };
  // `loss` and `kinds` must outlive the object; find_kinds() fills `kinds`.
  StageRunner(const PipelineStage& stage, const PipelineLoss& loss, StageKinds& kinds, bool recompute);

  const PipelineStage& stage() const { return stage_; }
  // Finds the kinds of the stage's outputs by a forward pass with zeros. Restores random generators
  // and buffers afterwards.
  void find_kinds(const std::vector<TensorKind>& inputs, const Pass& pass);

  // Runs the forward pass of a microbatch. `target` is for the last stage. Returns the tensors for the next
  // stage; the last stage returns its outputs. If the kinds of the outputs differ from those that
  // find_kinds() found, throws std::invalid_argument.
  std::vector<at::Tensor> forward(int microbatch, std::vector<at::Tensor> inputs, const at::Tensor& target,
                                  const Pass& pass);
  // Returns the losses of the microbatches so far, in their order, and removes them. Only the last
  // stage has losses.
  std::vector<at::Tensor> take_losses();

  // Runs the backward pass of a microbatch. `gradients` has a gradient for each output that needs one. For
  // the last stage it is empty. Returns a gradient for each input that needs one.
  std::vector<at::Tensor> backward(int microbatch, const std::vector<at::Tensor>& gradients,
                                   const Pass& pass);
  // Computes the weight gradients of separable layers. Call it after backward(), which computes
  // all other gradients.
  void backward_weight(int microbatch);
  void forget();  // drops all kept tensors; needed after an error

 private:
  struct Held {
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;  // with their graph; empty if backward() computes them again
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
// Returns a text such as "Float [8, 3], Long [8]".
std::string text_of(const std::vector<TensorKind>& kinds);

}  // namespace muster
