// Finds the torch::nn::Module in a model. The model is a module, a holder as TORCH_MODULE makes it, a pointer
// to a module, or a DistributedDataParallel.
//
// Not for direct use.
#pragma once

#include <concepts>
#include <memory>
#include <torch/nn/module.h>
#include <type_traits>
#include <utility>

namespace muster::detail {

template <class Module>
auto module_pointer(Module module) {
  if constexpr (std::is_base_of_v<torch::nn::Module, Module>)
    return std::make_shared<Module>(std::move(module));
  else if constexpr (requires { module.ptr(); })  // a holder, as TORCH_MODULE makes it
    return module.ptr();
  else
    return module;
}

template <class Model>
concept IsModel = std::is_base_of_v<torch::nn::Module, Model> ||
                  requires(Model& model) { model.bucket_order(); } || requires(Model& model) {
                    { *model } -> std::convertible_to<torch::nn::Module&>;
                  };

template <IsModel Model>
torch::nn::Module& module_of(Model& model) {
  if constexpr (std::is_base_of_v<torch::nn::Module, Model>)
    return model;
  else if constexpr (requires { model.bucket_order(); })
    return *model.module();
  else
    return *model;
}

}  // namespace muster::detail
