// Replaces Gloo's header of this name, which is not part of any build of torch. ProcessGroupGloo.hpp keeps
// contexts only by shared_ptr, and the code for them is in libtorch_cpu. So the layout of the class here is
// never used. Do not call setTimeout(): this header only declares it.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
