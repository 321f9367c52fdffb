// Replaces Gloo's header of this name, which is not part of any build of torch.
//
// Functions in libtorch_cpu return devices and take them back. They do so only by shared_ptr. Muster never
// creates a buffer.
#pragma once

namespace gloo::transport {

class Device;

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = default;
};

}  // namespace gloo::transport
