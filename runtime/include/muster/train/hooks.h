// Functions that run when a layer is called or when a gradient arrives: PyTorch's hooks, which LibTorch's
// modules lack.
//
//   auto hook = [&](auto& layer, auto& input, auto& output) {
//     activations = output.detach();
//     return at::Tensor();  // leaves the output as it is
//   };
//   auto handle = muster::register_forward_hook(net, "features.3", hook);
//   handle.remove();
//
// A layer can have forward hooks if a Sequential calls it, at any depth, or if it is declared with hooks:
// muster::Hooked<torch::nn::Conv2d> conv. A forward() in C++ calls all other layers directly. Registering a
// hook on one of these throws an error, which names the layer. Layers must take and return one tensor. Hooks
// run in the order of their registration, until they are removed or the layer is destroyed. Only the thread
// of the forward pass may call these functions.
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

// A hook returns a tensor that replaces the input, the output or the gradient. If it returns an undefined
// tensor, nothing is replaced.
using ForwardPreHook = std::function<at::Tensor(torch::nn::Module& layer, const at::Tensor& input)>;
using ForwardHook =
    std::function<at::Tensor(torch::nn::Module& layer, const at::Tensor& input, const at::Tensor& output)>;
using GradientHook = std::function<at::Tensor(const std::string& parameter, const at::Tensor& gradient)>;

// Removes a hook. Destroying the handle does not remove it. Do not call remove() inside a hook.
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

// The base class of layers that are declared with hooks.
struct HasHooks {
  std::shared_ptr<Hooks> hooks = std::make_shared<Hooks>();
};

HookHandle add_forward_hook(torch::nn::Module& model, const std::string& name, ForwardHook hook);
HookHandle add_forward_pre_hook(torch::nn::Module& model, const std::string& name, ForwardPreHook hook);
HookHandle add_gradient_hook(torch::nn::Module& model, const std::string& part, const GradientHook& hook);

}  // namespace detail

// Throws std::invalid_argument if the model has no layer of this name, or if the layer cannot have hooks.
template <detail::IsModel Model>
HookHandle register_forward_hook(Model& model, const std::string& name, ForwardHook hook) {
  return detail::add_forward_hook(detail::module_of(model), name, std::move(hook));
}
template <detail::IsModel Model>
HookHandle register_forward_pre_hook(Model& model, const std::string& name, ForwardPreHook hook) {
  return detail::add_forward_pre_hook(detail::module_of(model), name, std::move(hook));
}
// Registers the hook for each parameter of a part. `part` is a name as for freeze(); "" is the whole model.
// The hook gets this rank's gradient, before it is added to grad() and reduced. Throws std::invalid_argument
// if no parameter of the part learns.
template <detail::IsModel Model>
HookHandle register_gradient_hook(Model& model, const std::string& part, const GradientHook& hook) {
  return detail::add_gradient_hook(detail::module_of(model), part, hook);
}

// A layer that can have hooks, and is otherwise unchanged.
template <class Layer>
class HookedImpl : public Layer, public detail::HasHooks {
 public:
  using Layer::Layer;
  at::Tensor forward(const at::Tensor& input) {
    if (hooks->empty()) return Layer::forward(input);
    return hooks->run(*this, input, [this](const at::Tensor& in) { return Layer::forward(in); });
  }
};
// The module holder of a HookedImpl. A model declares such a layer and makes it in its constructor:
//   muster::Hooked<torch::nn::Linear> head = nullptr;
//   head = register_module("head", muster::Hooked<torch::nn::Linear>(64, 10));
template <class Holder>
class Hooked : public torch::nn::ModuleHolder<HookedImpl<typename Holder::ContainedType>> {
 public:
  using torch::nn::ModuleHolder<HookedImpl<typename Holder::ContainedType>>::ModuleHolder;
};

}  // namespace muster
