// Copies batches to a device on a stream of its own, beside the computation.
//
// begin() starts a copy, finish() makes the current stream wait for it. For one thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <vector>

namespace muster {

class DeviceCopy {
 public:
  explicit DeviceCopy(at::Device device);
  // Each tensor is replaced by its copy on the device; what it was must live until finish(). Only page-locked
  // memory is copied beside the computation.
  void begin(const std::vector<at::Tensor*>& tensors);
  void finish(const std::vector<at::Tensor*>& tensors);

 private:
  at::Device device_;
  c10::impl::VirtualGuardImpl device_functions_;
  c10::Stream stream_;
  std::vector<at::Tensor> sources_;
};

}  // namespace muster
