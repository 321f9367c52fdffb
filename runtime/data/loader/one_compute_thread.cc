#include "runtime/data/loader/one_compute_thread.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace muster {

namespace {

// Sets the calling thread's number of OpenMP threads, in the OpenMP library that LibTorch has loaded. Does
// nothing if there is no such library. at::set_num_threads() would also affect threads that start later, and
// MKL in all threads. c10::ParallelGuard does not keep operators from using OpenMP.
void set_threads(int count) {
  static const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) set(count);
}

}  // namespace

// Calls at::get_num_threads() first. In a new thread, LibTorch's first such call sets its own number of
// threads. After set_threads(1), it would replace the 1.
OneComputeThread::OneComputeThread() : before_(at::get_num_threads()) {
  set_threads(1);
}

OneComputeThread::~OneComputeThread() {
  set_threads(before_);
}

}  // namespace muster
