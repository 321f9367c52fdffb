// A stand-in for Gloo's header of this name, which no build of torch ships. ProcessGroupGloo.hpp holds
// contexts by shared_ptr, and their code is in libtorch_cpu, so the layout here is never used. Do not call
// setTimeout: it is only declared.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
