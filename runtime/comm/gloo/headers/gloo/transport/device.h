// A stand-in for Gloo's header of this name, which no build of torch ships.
//
// Functions in libtorch_cpu return devices and take them back by shared_ptr. Muster never creates a buffer.
#pragma once

namespace gloo::transport {

class Device;

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = default;
};

}  // namespace gloo::transport
