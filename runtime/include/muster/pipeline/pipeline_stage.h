// One stage of a model that is cut into consecutive stages: torch.distributed.pipelining's PipelineStage.
//
//   muster::PipelineStage stage(FirstHalf(), 0, 2, job);   // on rank 0
//   muster::PipelineStage stage(SecondHalf(), 1, 2, job);  // on rank 1
//   muster::Schedule1F1B schedule({stage}, 8, loss);       // pipeline_schedule.h
//
// A stage is a module. Its forward() takes up to 8 tensors or one vector of tensors. It returns a tensor, or
// a tuple or vector of tensors, for the next stage. The stage's parameters should have the names that they
// have in the undivided model, so that checkpoints do not depend on the cut. PipelineLayers
// (pipeline_layers.h) makes such stages from a list of layers. A stage is a handle: copies share the module.
#pragma once

#include <memory>
#include <muster/comm/detail/module.h>
#include <muster/comm/group.h>
#include <muster/pipeline/detail/stage_forward.h>
#include <torch/nn/module.h>
#include <utility>
#include <vector>

namespace muster {

class PipelineStage {
 public:
  // `group` has the ranks with the stages of one copy of the model. If stage_index is out of range, throws
  // std::invalid_argument.
  template <class Module>
  PipelineStage(Module module, int stage_index, int num_stages, const Group& group)
      : PipelineStage(detail::module_pointer(std::move(module)), stage_index, num_stages, group,
                      PointerTag()) {}

  int stage_index() const { return stage_index_; }
  int num_stages() const { return num_stages_; }
  bool is_first() const { return stage_index_ == 0; }
  bool is_last() const { return stage_index_ == num_stages_ - 1; }
  const Group& group() const { return group_; }
  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }
  std::vector<at::Tensor> parameters() const { return module_->parameters(); }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs) const { return forward_(inputs); }

 private:
  struct PointerTag {};
  template <class Module>
  PipelineStage(std::shared_ptr<Module> module, int stage_index, int num_stages, const Group& group,
                PointerTag /*pointer*/)
      : PipelineStage(module, detail::stage_forward(module), stage_index, num_stages, group) {}
  PipelineStage(std::shared_ptr<torch::nn::Module> module, detail::StageForward forward, int stage_index,
                int num_stages, const Group& group);

  std::shared_ptr<torch::nn::Module> module_;
  detail::StageForward forward_;
  int stage_index_;
  int num_stages_;
  Group group_;
};

}  // namespace muster
