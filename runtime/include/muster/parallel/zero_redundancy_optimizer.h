// PyTorch's ZeroRedundancyOptimizer: the optimizer of a data-parallel model whose state is shared out among
// the ranks (ZeRO-1). Each rank updates its share of the parameters, whole ones, and gives them to all.
//
//   muster::ZeroRedundancyOptimizer optimizer(
//       model.parameters(), [](auto mine) {
//         return std::make_unique<muster::FusedAdamW>(mine, torch::optim::AdamWOptions(1e-3));
//       }, job);
//
// It ends bit for bit where the optimizer without it does. In a checkpoint the state has the form that it has
// without it, each rank writes its own, and any number of ranks, with it or without, goes on. Groups and
// options are those of this object; learning rates are changed here. step() is collective. For the training
// thread.
#pragma once

#include <functional>
#include <memory>
#include <muster/checkpoint/saved_optimizer.h>
#include <muster/comm/group.h>
#include <torch/optim/optimizer.h>
#include <vector>

namespace muster {

class ZeroRedundancyOptimizer : public torch::optim::Optimizer, public WrappedOptimizer {
 public:
  // Makes the optimizer of a rank: its groups have the parameters that are the rank's, or none.
  using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(
      const std::vector<torch::optim::OptimizerParamGroup>&)>;

  // The same parameters, in the same order, on all ranks. std::invalid_argument for LBFGS, whose steps are of
  // all parameters together.
  ZeroRedundancyOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups, const Make& make,
                          Group group);
  ZeroRedundancyOptimizer(std::vector<at::Tensor> parameters, const Make& make, Group group);

  // With a closure, which every rank calls, its loss. std::logic_error if groups were added since.
  at::Tensor step(LossClosure closure = nullptr) override;

  torch::optim::Optimizer& local() override { return *local_; }  // updates this rank's share
  void give_options() override;
  void take_options() override;

 private:
  Group group_;
  std::unique_ptr<torch::optim::Optimizer> local_;
  std::vector<std::vector<at::Tensor>> shares_;  // of each member, in the order of the group
};

}  // namespace muster
