#include "runtime/data/loader/one_compute_thread.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace muster {

namespace {

// OpenMP keeps the number for each thread; at::set_num_threads() would also set it for threads to come, and
// MKL's for all. c10::ParallelGuard does not keep operators from OpenMP. The OpenMP is that which LibTorch
// has loaded; without one there is nothing to do.
void set_threads(int count) {
  static const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) set(count);
}

}  // namespace

// at::get_num_threads() first makes LibTorch set the number that it wants for a new thread.
OneComputeThread::OneComputeThread() : before_(at::get_num_threads()) {
  set_threads(1);
}

OneComputeThread::~OneComputeThread() {
  set_threads(before_);
}

}  // namespace muster
