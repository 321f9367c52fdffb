// Copies batches to a device while the computation runs.
//
// DeviceCopy keeps the state of one copy; DeviceCopier is the interface to the device. One thread uses each.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <memory>
#include <vector>

namespace muster {

class DeviceCopier {
 public:
  virtual ~DeviceCopier() = default;
  // Begins a copy. The caller keeps `tensor` alive until ready(). Only copies of page-locked memory overlap
  // with the computation.
  virtual at::Tensor copy(const at::Tensor& tensor) = 0;
  // After this call, the calling thread's computation may use `copies`, which are all that copy() returned.
  virtual void ready(const std::vector<at::Tensor>& copies) = 0;
};

// A copier with its own stream.
std::shared_ptr<DeviceCopier> make_device_copier(at::Device device);

class DeviceCopy {
 public:
  explicit DeviceCopy(std::shared_ptr<DeviceCopier> copier) : copier_(std::move(copier)) {}
  // Begins to copy the tensors, and replaces each by its copy. If one copy fails, none is replaced.
  void begin(const std::vector<at::Tensor*>& tensors);
  // After this call, the computation may use the copies.
  void finish();

 private:
  const std::shared_ptr<DeviceCopier> copier_;
  std::vector<at::Tensor> sources_;
  std::vector<at::Tensor> copies_;
};

}  // namespace muster
