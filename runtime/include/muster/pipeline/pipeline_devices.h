// A model whose stages are on several devices of one process.
//
//   muster::ModelParallel model({{FirstHalf(), {at::kCUDA, 0}}, {SecondHalf(), {at::kCUDA, 1}}});
//   const auto logits = model.forward(images);
//
// or, in parts of 20 samples that go through the devices one after the other,
//
//   muster::PipelineParallel model({{FirstHalf(), {at::kCUDA, 0}}, {SecondHalf(), {at::kCUDA, 1}}}, 20);
//
// A stage is any module that PipelineStage takes. Both classes are modules. They share the stages'
// parameters, and use the stages' names for them. If the stages were cut from a model, these are the model's
// names. Dropout draws from the devices' generators, in the order in which the stages run.
#pragma once

#include <cstdint>
#include <memory>
#include <muster/comm/detail/module.h>
#include <muster/pipeline/detail/stage_forward.h>
#include <torch/nn/module.h>
#include <utility>
#include <vector>

namespace muster {

class DeviceStage {
 public:
  // Moves the module to the device.
  template <class Module>
  DeviceStage(Module module, const c10::Device& device)
      : DeviceStage(detail::module_pointer(std::move(module)), device, PointerTag()) {}

  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }
  const c10::Device& device() const { return device_; }
  // Copies the tensors to the stage's device. Does not wait for copies between GPUs.
  std::vector<at::Tensor> bring(std::vector<at::Tensor> tensors) const;
  // Takes tensors on any device.
  std::vector<at::Tensor> forward(std::vector<at::Tensor> inputs) const {
    return forward_(bring(std::move(inputs)));
  }

 private:
  struct PointerTag {};
  template <class Module>
  DeviceStage(std::shared_ptr<Module> module, const c10::Device& device, PointerTag /*pointer*/)
      : DeviceStage(module, detail::stage_forward(module), device) {}
  DeviceStage(std::shared_ptr<torch::nn::Module> module, detail::StageForward forward,
              const c10::Device& device);

  std::shared_ptr<torch::nn::Module> module_;
  detail::StageForward forward_;
  c10::Device device_;
};

// Runs one stage after the other: one device computes while the others wait.
class ModelParallel : public torch::nn::Module {
 public:
  // Throws std::invalid_argument if there is no stage, or if two stages have a parameter or buffer of the
  // same name but not the same tensor.
  explicit ModelParallel(std::vector<DeviceStage> stages);

  // Returns the last stage's output, on its device. The second form is for a last stage that returns one
  // tensor.
  virtual std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  at::Tensor forward(const at::Tensor& input);

  void train(bool on = true) override;
  const std::vector<DeviceStage>& stages() const { return stages_; }

 private:
  std::vector<DeviceStage> stages_;
};

// Splits the batch into parts of `split_size` samples (the last may be smaller). While one stage computes a
// part, the previous stage computes the next part: the program does not wait for a GPU before it launches
// more work. The result equals ModelParallel's, except for layers that depend on the whole batch, such as
// BatchNorm.
class PipelineParallel : public ModelParallel {
 public:
  // Throws std::invalid_argument if split_size < 1.
  PipelineParallel(std::vector<DeviceStage> stages, std::int64_t split_size);

  using ModelParallel::forward;
  // Splits the tensors along their first dimension, and concatenates the outputs along it.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs) override;

 private:
  std::int64_t split_size_;
};

}  // namespace muster
