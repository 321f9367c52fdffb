// One process, several devices: a batch is cut in parts along its first dimension, each device runs the model
// on one, in a thread of its own, and gradients are summed on the first device, where the parameters are.
//
//   muster::DataParallel<NetImpl> model(net.ptr(), {{torch::kCUDA, 0}, {torch::kCUDA, 1}});
//   loss_of(model(images), labels).backward();  // then step the optimizer of net
//
// The wrong tool wherever DistributedDataParallel can be used, which is wherever several processes can be
// started: this one copies all parameters to all devices in every step, sums gradients after backward rather
// than during it, and leaves devices idle meanwhile. It is for programs that must stay one process.
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
  // How many parts these inputs of one batch make: as many as there are devices, but none is empty.
  std::size_t count_parts(const std::vector<at::Tensor>& inputs) const;
  // The parts of one input, each on its device.
  std::vector<at::Tensor> scatter(const at::Tensor& input) const;
  // Brings the first `count` up to date and calls forward(index) for all of them at the same time; of those
  // that throw, the exception of the first is thrown on. The results are put together on the first device.
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
  // The module must be on the first device, and be a torch::nn::Cloneable, as torch's own are. The same
  // device may be named several times. std::invalid_argument if this is not so. Gradients and new values of
  // buffers (those of the first part) appear in `module`.
  DataParallel(std::shared_ptr<Module> module, std::vector<c10::Device> devices)
      : module_(std::move(module)), replicas_(module_, std::move(devices)) {}

  // Tensors are cut, [batch, ...] each; what else is given goes to all. The module's forward() returns a
  // tensor: [part of the batch, ...], or a number, of which the result is [parts]. std::invalid_argument if
  // there is no tensor among the inputs, or their first dimensions differ. Generators of random numbers are
  // shared by the threads, so dropout is not the same in each run.
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
