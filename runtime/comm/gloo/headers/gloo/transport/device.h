// Replaces Gloo's header gloo/transport/device.h, because no build of torch contains that header.
//
// Functions in libtorch_cpu return and take devices, but only as shared_ptrs. Muster never creates a buffer.
#pragma once

namespace gloo::transport {

class Device;

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = default;
};

}  // namespace gloo::transport
