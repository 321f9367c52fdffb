// PyTorch's ZeroRedundancyOptimizer (ZeRO-1): the ranks of a data-parallel model divide the optimizer's state
// among themselves. Each rank updates some of the parameters and sends them to all ranks. A parameter is
// never divided.
//
//   muster::ZeroRedundancyOptimizer optimizer(
//       model.parameters(), [](auto mine) {
//         return std::make_unique<muster::FusedAdamW>(mine, torch::optim::AdamWOptions(1e-3));
//       }, job);
//
// The result is bit for bit that of the inner optimizer without this class. In a checkpoint the optimizer's
// state has the same form as without this class. Each rank writes its own part; any number of ranks, with or
// without this class, can resume from the checkpoint. Set learning rates and other options in this object's
// groups. step() is collective. Only the training thread may use the optimizer.
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
  // Makes a rank's inner optimizer for these groups, which have the rank's share of the parameters. A group
  // can be empty.
  using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(
      const std::vector<torch::optim::OptimizerParamGroup>&)>;

  // All ranks must give the same parameters in the same order. Throws std::invalid_argument for LBFGS, whose
  // step uses all parameters together.
  ZeroRedundancyOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups, const Make& make,
                          Group group);
  ZeroRedundancyOptimizer(std::vector<at::Tensor> parameters, const Make& make, Group group);

  // Every rank calls the closure, if there is one, and step() returns this rank's loss. Without a closure it
  // returns an undefined tensor. Throws std::logic_error if groups were added after construction.
  at::Tensor step(LossClosure closure = nullptr) override;

  torch::optim::Optimizer& local() override { return *local_; }  // updates this rank's share
  void give_options() override;
  void take_options() override;

 private:
  Group group_;
  std::unique_ptr<torch::optim::Optimizer> local_;
  std::vector<std::vector<at::Tensor>> shares_;  // each member's parameters, in the group's order
};

}  // namespace muster
