// Copies batches to a device while the computation runs.
//
// DeviceCopier is the interface to the device. DeviceCopy keeps the state of one batch's copy. Only one
// thread uses an object of these classes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <memory>
#include <vector>

namespace muster {

class DeviceCopier {
 public:
  virtual ~DeviceCopier() = default;
  // Begins to copy `tensor`, and returns the copy. The caller must keep `tensor` alive until ready() is
  // called. If `tensor` is in page-locked memory, the computation goes on during the copy. Otherwise it has
  // to wait.
  virtual at::Tensor copy(const at::Tensor& tensor) = 0;
  // After this call, the computation of the calling thread can use `copies`. These must be all the tensors
  // that copy() has returned.
  virtual void ready(const std::vector<at::Tensor>& copies) = 0;
};

// Returns a copier with its own stream.
std::shared_ptr<DeviceCopier> make_device_copier(at::Device device);

class DeviceCopy {
 public:
  explicit DeviceCopy(std::shared_ptr<DeviceCopier> copier) : copier_(std::move(copier)) {}
  // Begins to copy the tensors, and replaces each tensor by its copy. If one of the copies fails, no tensor
  // is replaced.
  void begin(const std::vector<at::Tensor*>& tensors);
  // After this call, the computation can use the copies that begin() has made.
  void finish();

 private:
  const std::shared_ptr<DeviceCopier> copier_;
  std::vector<at::Tensor> sources_;
  std::vector<at::Tensor> copies_;
};

}  // namespace muster
