// Stands in for Gloo's header of this name, which no build of torch ships. ProcessGroupGloo.hpp holds
// contexts by shared_ptr and its code lies in libtorch_cpu, so the layout here is never used; setTimeout is
// declared and may not be called.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
