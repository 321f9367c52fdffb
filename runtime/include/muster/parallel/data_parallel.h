// Data-parallel training in one process with several devices. Each device runs the model on a part of the
// batch, in a thread of its own. The gradients are summed on the first device, which has the parameters.
//
//   muster::DataParallel<NetImpl> model(net.ptr(), {{torch::kCUDA, 0}, {torch::kCUDA, 1}});
//   loss_of(model(images), labels).backward();  // then step the optimizer of net
//
// Use DistributedDataParallel instead wherever the program can run as several processes. In every step this
// class copies all parameters to all devices, sums gradients after backward rather than during it, and leaves
// devices idle meanwhile. It is for programs that must stay one process.
#pragma once

#include <functional>
#include <memory>
#include <torch/nn/module.h>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

namespace detail {

// The model on the first device and copies of it on the others.
class Replicas {
 public:
  Replicas(std::shared_ptr<torch::nn::Module> module, std::vector<c10::Device> devices);

  torch::nn::Module& at(std::size_t index) const { return *replicas_[index]; }
  // Returns the number of parts into which the inputs of one batch are split. There is at most one part per
  // device, and no part is empty.
  std::size_t count_parts(const std::vector<at::Tensor>& inputs) const;
  // Returns the parts of one input, each on its device.
  std::vector<at::Tensor> scatter(const at::Tensor& input) const;
  // Updates the first `count` replicas and calls forward(index) for all of them in parallel. If several
  // throw, rethrows the exception of the lowest index. Concatenates the results on the first device.
  at::Tensor run(std::size_t count, const std::function<at::Tensor(std::size_t)>& forward) const;

 private:
  void refresh(std::size_t count) const;

  std::vector<std::shared_ptr<torch::nn::Module>> replicas_;
  std::vector<c10::Device> devices_;
};

}  // namespace detail

template <class Module>
class DataParallel {
 public:
  // The module must be on the first device, and must be a torch::nn::Cloneable, as torch's own modules are.
  // Otherwise throws std::invalid_argument. A device can occur several times. backward() leaves the gradients
  // in `module`. The module's buffers get the changes that the forward pass of the batch's first part makes.
  DataParallel(std::shared_ptr<Module> module, std::vector<c10::Device> devices)
      : module_(std::move(module)), replicas_(module_, std::move(devices)) {}

  // Splits each tensor [batch, ...] into parts. All other arguments are given to every part.
  // The module's forward() must return a tensor. If its first dimension is the batch, the results of the
  // parts are concatenated along it. If they have no dimensions, this function returns them as one tensor
  // [parts]. Throws std::invalid_argument if no input is a tensor, or if the tensors' first dimensions
  // differ. The threads share the random number generators, so dropout differs from run to run.
  template <class... Inputs>
  at::Tensor forward(Inputs&&... inputs) {
    std::vector<at::Tensor> tensors;
    const auto note = [&](const auto& input) {
      if constexpr (std::is_same_v<std::decay_t<decltype(input)>, at::Tensor>) tensors.push_back(input);
    };
    (note(inputs), ...);
    const std::size_t count = replicas_.count_parts(tensors);
    const std::tuple parts{cut(inputs)...};
    return replicas_.run(count, [&](std::size_t index) -> at::Tensor {
      return std::apply(
          [&](const auto&... each) {
            return dynamic_cast<Module&>(replicas_.at(index)).forward(part_of(each, index)...);
          },
          parts);
    });
  }
  template <class... Inputs>
  at::Tensor operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  const std::shared_ptr<Module>& module() const { return module_; }

 private:
  template <class Input>
  auto cut(Input& input) const {
    if constexpr (std::is_same_v<std::remove_cv_t<Input>, at::Tensor>)
      return replicas_.scatter(input);
    else
      return std::ref(input);
  }
  static const at::Tensor& part_of(const std::vector<at::Tensor>& parts, std::size_t index) {
    return parts[index];
  }
  template <class Input>
  static Input& part_of(std::reference_wrapper<Input> input, std::size_t /*index*/) {
    return input.get();
  }

  std::shared_ptr<Module> module_;
  detail::Replicas replicas_;
};

}  // namespace muster
