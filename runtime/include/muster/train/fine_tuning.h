// Transfer learning: which parameters of a model learn, and how fast.
//
//   auto model = muster::DistributedDataParallel(net, job, {.find_unused_parameters = true});
//   muster::freeze(net, "backbone");
//   torch::optim::AdamW optimizer(muster::param_groups<torch::optim::AdamWOptions>(
//       net, {{"backbone", {1e-5}}, {"", {1e-3}}}));
//   ...
//   if (loader.epoch() == 3) muster::unfreeze(net, "backbone");
//
// A part is named by what the names of its parameters begin with, up to a dot: "backbone", "backbone.layer4",
// "head.weight"; "" is all of the model. DistributedDataParallel reduces what learns when it is made: what is
// to stay frozen is frozen before, what is thawed later on is frozen after, with .find_unused_parameters =
// true; its first forward() after the thaw of anything else throws. A checkpoint is restored into the groups
// that the optimizer has: those of parts that learn later on are made from the beginning. For the training
// thread.
#pragma once

#include <memory>
#include <muster/comm/detail/module.h>
#include <string>
#include <torch/optim/optimizer.h>
#include <utility>
#include <vector>

namespace muster {

namespace detail {
int set_requires_grad(torch::nn::Module& module, const std::string& part, bool learns);
// Of each part the parameters that belong to no longer one.
std::vector<std::vector<at::Tensor>> parts_of(const torch::nn::Module& module,
                                              const std::vector<std::string>& parts);
}  // namespace detail

// No gradients are made for the part, and those that there are go, so that optimizers leave it alone; its
// layers' buffers (BatchNorm's) change until the program calls eval() on them. How many parameters; those
// that are the same tensor count once. std::invalid_argument if the model has no such part.
template <detail::IsModel Model>
int freeze(Model& model, const std::string& part) {
  return detail::set_requires_grad(detail::module_of(model), part, false);
}
template <detail::IsModel Model>
int unfreeze(Model& model, const std::string& part) {
  return detail::set_requires_grad(detail::module_of(model), part, true);
}

// Groups for an optimizer, one for each part, of its options: LibTorch's, by their optimizer. Each parameter
// belongs to the longest part that fits. std::invalid_argument if a part has none, or a parameter no part.
// From LibTorch 2.12 on an option that equals its type's default (AdamW: learning rate 1e-3, weight decay
// 0.01) counts as not set, and the group gets the optimizer's value. To give a group that default, set it in
// the optimizer's param_groups() afterwards.
template <class Options, detail::IsModel Model>
std::vector<torch::optim::OptimizerParamGroup> param_groups(
    Model& model, const std::vector<std::pair<std::string, Options>>& parts) {
  std::vector<std::string> names;
  for (const auto& each : parts) names.push_back(each.first);
  const auto parameters = detail::parts_of(detail::module_of(model), names);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (std::size_t i = 0; i < parts.size(); ++i)
    groups.emplace_back(parameters[i], std::make_unique<Options>(parts[i].second));
  return groups;
}

}  // namespace muster
