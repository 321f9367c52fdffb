// Transfer learning: chooses the parameters of a model that learn, and their learning rates.
//
//   auto model = muster::DistributedDataParallel(net, job, {.find_unused_parameters = true});
//   muster::freeze(net, "backbone");
//   torch::optim::AdamW optimizer(muster::param_groups<torch::optim::AdamWOptions>(
//       net, {{"backbone", {1e-5}}, {"", {1e-3}}}));
//   ...
//   if (loader.epoch() == 3) muster::unfreeze(net, "backbone");
//
// A part is named by a prefix of its parameters' names, up to a dot: "backbone", "backbone.layer4",
// "head.weight"; "" is the whole model.
// A DistributedDataParallel reduces only the parameters that learn at its construction:
// - Before the construction, freeze the parts that will stay frozen.
// - After the construction, freeze the parts that will learn later. They need .find_unused_parameters = true.
// If any other part is unfrozen, the next forward() throws.
// A checkpoint is restored into the optimizer's existing groups, so create all groups at the beginning, also
// those of parts that learn later. Only the training thread may call these functions.
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
// Returns the parameters of each part. If a parameter belongs to several parts, it is listed only with the
// longest one.
std::vector<std::vector<at::Tensor>> parts_of(const torch::nn::Module& module,
                                              const std::vector<std::string>& parts);
}  // namespace detail

// The parameters of the part need no gradients from now on, and their present gradients are deleted. So
// optimizers skip the part. Buffers of its layers (BatchNorm's) still change unless the program calls eval()
// on these layers. Returns the number of parameters; shared ones count once. Throws std::invalid_argument if
// the model has no such part.
template <detail::IsModel Model>
int freeze(Model& model, const std::string& part) {
  return detail::set_requires_grad(detail::module_of(model), part, false);
}
template <detail::IsModel Model>
int unfreeze(Model& model, const std::string& part) {
  return detail::set_requires_grad(detail::module_of(model), part, true);
}

// Returns groups for an optimizer: one per part, with the part's options. `Options` is LibTorch's type for
// that optimizer. Each parameter belongs to the longest part that matches. Throws std::invalid_argument if a
// part has no parameter, or if a parameter belongs to no part.
// From LibTorch 2.12 on, an option equal to its type's default (AdamW: learning rate 1e-3, weight decay 0.01)
// counts as not set, and the group gets the optimizer's value. To give a group that default, set it in the
// optimizer's param_groups() afterwards.
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
