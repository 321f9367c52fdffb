#include "runtime/data/loader/one_compute_thread.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace muster {

namespace {

// Sets the calling thread's number of OpenMP threads, in the OpenMP library that LibTorch has loaded; does
// nothing without one. at::set_num_threads() would also change future threads, and MKL in all threads.
// c10::ParallelGuard does not keep operators from using OpenMP.
void set_threads(int count) {
  static const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) set(count);
}

}  // namespace

// Calls at::get_num_threads() first: in a new thread, that makes LibTorch set its own number of threads.
// Later, LibTorch's number would replace the 1.
OneComputeThread::OneComputeThread() : before_(at::get_num_threads()) {
  set_threads(1);
}

OneComputeThread::~OneComputeThread() {
  set_threads(before_);
}

}  // namespace muster
