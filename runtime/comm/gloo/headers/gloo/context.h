// Replaces Gloo's header gloo/context.h, because no build of torch contains that header. ProcessGroupGloo.hpp
// only keeps shared_ptrs to contexts, and the code of the real class is in libtorch_cpu. So the layout of the
// class in this header is never used. Do not call setTimeout(): this header only declares it.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
