// Stands in for Gloo's header of this name, which no build of torch ships.
//
// Devices come from functions in libtorch_cpu and go back into it by shared_ptr; buffers are held and never
// made.
#pragma once

namespace gloo::transport {

class Device;

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = default;
};

}  // namespace gloo::transport
