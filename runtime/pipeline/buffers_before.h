// Restores the buffers of a module, such as running statistics, after a forward pass that is only a trial.
//
// Only one thread uses an object.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <vector>

namespace muster {

class BuffersBefore {
 public:
  explicit BuffersBefore(const torch::nn::Module& module) : buffers_(module.buffers()) {
    for (const at::Tensor& each : buffers_) copies_.push_back(each.clone());
  }
  BuffersBefore(const BuffersBefore&) = delete;
  BuffersBefore& operator=(const BuffersBefore&) = delete;
  ~BuffersBefore() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(copies_[i]);
  }

 private:
  std::vector<at::Tensor> buffers_, copies_;
};

}  // namespace muster
