// Copies batches to a device, beside the computation.
//
// DeviceCopy says what is copied and when it may be used; a DeviceCopier is the device. Both are for one
// thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <memory>
#include <vector>

namespace muster {

class DeviceCopier {
 public:
  virtual ~DeviceCopier() = default;
  // Begins a copy; what is copied lives until ready(). Only page-locked memory is copied beside the
  // computation.
  virtual at::Tensor copy(const at::Tensor& tensor) = 0;
  // From here on the calling thread's computation may use what was copied, which is all of `copies`.
  virtual void ready(const std::vector<at::Tensor>& copies) = 0;
};

// On a stream of its own.
std::shared_ptr<DeviceCopier> make_device_copier(at::Device device);

class DeviceCopy {
 public:
  explicit DeviceCopy(std::shared_ptr<DeviceCopier> copier) : copier_(std::move(copier)) {}
  // Begins to copy these tensors, each of which is its copy afterwards; if one of them fails, none is.
  void begin(const std::vector<at::Tensor*>& tensors);
  // The copies may be used.
  void finish();

 private:
  const std::shared_ptr<DeviceCopier> copier_;
  std::vector<at::Tensor> sources_;
  std::vector<at::Tensor> copies_;
};

}  // namespace muster
