// Stands in for Gloo's header of this name, which no build of torch ships: devices come from libtorch_cpu's
// functions and go back into them by shared_ptr; buffers are held and never made.
#pragma once

namespace gloo::transport {

class Device;

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = default;
};

}  // namespace gloo::transport
