// Makes a function from the forward() of a module. The function takes and returns vectors of tensors,
// whatever forward() takes and returns.
//
// Not for direct use: include muster/pipeline/pipeline_stage.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstddef>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

namespace muster::detail {

using StageForward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

inline std::vector<at::Tensor> tensors_of(at::Tensor output) {
  return {std::move(output)};
}
inline std::vector<at::Tensor> tensors_of(std::vector<at::Tensor> outputs) {
  return outputs;
}
template <class... Outputs>
std::vector<at::Tensor> tensors_of(std::tuple<Outputs...> outputs) {
  return std::apply([](auto&... each) { return std::vector<at::Tensor>{std::move(each)...}; }, outputs);
}

constexpr std::size_t kMostStageInputs = 8;

template <std::size_t>
using TensorOf = const at::Tensor&;

template <class Module, std::size_t... I>
constexpr bool takes(std::index_sequence<I...> /*inputs*/) {
  return requires(Module& module, TensorOf<I>... input) { tensors_of(module.forward(input...)); };
}
template <class Module, std::size_t... I>
std::vector<at::Tensor> call_forward(Module& module, const std::vector<at::Tensor>& inputs,
                                     std::index_sequence<I...> /*inputs*/) {
  return tensors_of(module.forward(inputs[I]...));
}

// Calls forward() with one argument for each tensor. Throws std::invalid_argument if forward() does not take
// that many arguments.
template <std::size_t Count, class Module>
std::vector<at::Tensor> forward_tensors(Module& module, const std::vector<at::Tensor>& inputs) {
  if constexpr (Count > kMostStageInputs) {
    throw std::invalid_argument(
        fmt::format("a stage gets {} tensors, but its forward() does not take that many", inputs.size()));
  } else {
    if constexpr (takes<Module>(std::make_index_sequence<Count>())) {
      if (inputs.size() == Count) return call_forward(module, inputs, std::make_index_sequence<Count>());
    }
    return forward_tensors<Count + 1>(module, inputs);
  }
}

// A forward() accepts this type only if it takes arguments of any type. The forward() of
// torch::nn::Sequential does. Such a forward() also compiles with a vector, even if the first layer does not
// take a vector.
struct Anything {};
template <class Module>
constexpr bool takes_vector() {
  return requires(Module& module, const std::vector<at::Tensor>& inputs) {
    tensors_of(module.forward(inputs));
  } && !requires(Module& module) { module.forward(Anything()); };
}

template <class Module>
StageForward stage_forward(std::shared_ptr<Module> module) {
  return [module = std::move(module)](const std::vector<at::Tensor>& inputs) {
    if constexpr (takes_vector<Module>())
      return tensors_of(module->forward(inputs));
    else
      return forward_tensors<1>(*module, inputs);
  };
}

}  // namespace muster::detail
