// Functions that are called when a layer is, or when a gradient arrives: PyTorch's hooks, which LibTorch's
// modules do not have.
//
//   auto hook = [&](auto& layer, auto& input, auto& output) {
//     activations = output.detach();
//     return at::Tensor();  // leaves the output as it is
//   };
//   auto handle = muster::register_forward_hook(net, "features.3", hook);
//   handle.remove();
//
// A layer can be reached where it is called by a Sequential, at any depth, and where it was declared to have
// hooks: muster::Hooked<torch::nn::Conv2d> conv. What a forward() calls by a plain member, C++ calls
// directly; such a layer is refused by name. Layers take one tensor and give one. Hooks run in the order in
// which they were registered, until they are removed or the layer goes. For the thread of the forward pass.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <muster/comm/detail/module.h>
#include <string>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <utility>

namespace muster {

// They return what takes the place of the input, the output or the gradient; an undefined tensor: nothing.
using ForwardPreHook = std::function<at::Tensor(torch::nn::Module& layer, const at::Tensor& input)>;
using ForwardHook =
    std::function<at::Tensor(torch::nn::Module& layer, const at::Tensor& input, const at::Tensor& output)>;
using GradientHook = std::function<at::Tensor(const std::string& parameter, const at::Tensor& gradient)>;

// Takes a hook away again: a handle that goes leaves it. Not from within a hook.
class HookHandle {
 public:
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  void remove() {
    if (const auto once = std::exchange(remove_, nullptr)) once();
  }

 private:
  std::function<void()> remove_;
};

namespace detail {

class Hooks {
 public:
  at::Tensor run(torch::nn::Module& layer, at::Tensor input,
                 const std::function<at::Tensor(const at::Tensor&)>& forward);
  std::int64_t add(ForwardPreHook hook);
  std::int64_t add(ForwardHook hook);
  void remove(std::int64_t id);
  bool empty() const { return before_.empty() && after_.empty(); }

 private:
  std::int64_t next_ = 0;
  std::map<std::int64_t, ForwardPreHook> before_;
  std::map<std::int64_t, ForwardHook> after_;
};

// Of a layer that is declared to have them.
struct HasHooks {
  std::shared_ptr<Hooks> hooks = std::make_shared<Hooks>();
};

HookHandle add_forward_hook(torch::nn::Module& model, const std::string& name, ForwardHook hook);
HookHandle add_forward_pre_hook(torch::nn::Module& model, const std::string& name, ForwardPreHook hook);
HookHandle add_gradient_hook(torch::nn::Module& model, const std::string& part, const GradientHook& hook);

}  // namespace detail

// std::invalid_argument if there is no layer of this name, or it cannot be reached.
template <detail::IsModel Model>
HookHandle register_forward_hook(Model& model, const std::string& name, ForwardHook hook) {
  return detail::add_forward_hook(detail::module_of(model), name, std::move(hook));
}
template <detail::IsModel Model>
HookHandle register_forward_pre_hook(Model& model, const std::string& name, ForwardPreHook hook) {
  return detail::add_forward_pre_hook(detail::module_of(model), name, std::move(hook));
}
// For each parameter of a part, as freeze() names it; "": of the model. The gradient is this rank's, before
// it is added to grad() and reduced. Not for parts without parameters that learn: std::invalid_argument.
template <detail::IsModel Model>
HookHandle register_gradient_hook(Model& model, const std::string& part, const GradientHook& hook) {
  return detail::add_gradient_hook(detail::module_of(model), part, hook);
}

// A layer as it is, with hooks.
template <class Layer>
class HookedImpl : public Layer, public detail::HasHooks {
 public:
  using Layer::Layer;
  at::Tensor forward(const at::Tensor& input) {
    if (hooks->empty()) return Layer::forward(input);
    return hooks->run(*this, input, [this](const at::Tensor& in) { return Layer::forward(in); });
  }
};
// Of a holder: muster::Hooked<torch::nn::Linear> head = register_module("head", ...(64, 10)).
template <class Holder>
class Hooked : public torch::nn::ModuleHolder<HookedImpl<typename Holder::ContainedType>> {
 public:
  using torch::nn::ModuleHolder<HookedImpl<typename Holder::ContainedType>>::ModuleHolder;
};

}  // namespace muster
