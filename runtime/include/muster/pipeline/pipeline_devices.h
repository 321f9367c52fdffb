// A model whose stages lie on several devices of one process.
//
//   muster::ModelParallel model({{FirstHalf(), {at::kCUDA, 0}}, {SecondHalf(), {at::kCUDA, 1}}});
//   const auto logits = model.forward(images);
//
// or, in parts of 20 samples that go through the devices one behind the other,
//
//   muster::PipelineParallel model({{FirstHalf(), {at::kCUDA, 0}}, {SecondHalf(), {at::kCUDA, 1}}}, 20);
//
// A stage is what PipelineStage takes. Both are modules: their parameters have the names that they have in
// the stages, which are the undivided model's if the stages were cut from it, and they lie in the stages.
// Dropout draws from the devices' generators, in the order in which the stages run.
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
  // The tensors on the stage's device. Between GPUs the copies are not waited for.
  std::vector<at::Tensor> bring(std::vector<at::Tensor> tensors) const;
  // Of tensors on any device.
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

// One device computes while the others wait.
class ModelParallel : public torch::nn::Module {
 public:
  // std::invalid_argument if there is no stage, or if two of them have a parameter or buffer of one name that
  // is not the same tensor.
  explicit ModelParallel(std::vector<DeviceStage> stages);

  // What the last stage gives, on its device. The one for a single tensor is for a last stage that gives one.
  virtual std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  at::Tensor forward(const at::Tensor& input);

  void train(bool on = true) override;
  const std::vector<DeviceStage>& stages() const { return stages_; }

 private:
  std::vector<DeviceStage> stages_;
};

// The batch goes through in parts of `split_size` samples (the last may be smaller), and while one part is in
// a stage the next one is in the stage before: a GPU computes while its program goes on to the next. Equal to
// ModelParallel but for what depends on the whole batch, such as BatchNorm.
class PipelineParallel : public ModelParallel {
 public:
  // std::invalid_argument if split_size is less than 1.
  PipelineParallel(std::vector<DeviceStage> stages, std::int64_t split_size);

  using ModelParallel::forward;
  // The tensors are cut along their first dimension, and so are put together again.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs) override;

 private:
  std::int64_t split_size_;
};

}  // namespace muster
