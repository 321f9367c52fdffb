#include "runtime/data/loader/one_compute_thread.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace muster {

namespace {

// Sets how many OpenMP threads the calling thread uses. To do so, it calls omp_set_num_threads() of the
// OpenMP library that LibTorch has loaded. If there is no such library, it does nothing.
//
// torch has two functions for this, but neither fits. at::set_num_threads() also changes the number for
// threads that start later, and for MKL in all threads. c10::ParallelGuard does not keep operators from using
// OpenMP.
void set_threads(int count) {
  static const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) set(count);
}

}  // namespace

// When at::get_num_threads() is called for the first time in a new thread, LibTorch sets the number of
// threads to its own value. So this constructor calls it before set_threads(1). Otherwise a later call of
// at::get_num_threads() could replace the 1.
OneComputeThread::OneComputeThread() : before_(at::get_num_threads()) {
  set_threads(1);
}

OneComputeThread::~OneComputeThread() {
  set_threads(before_);
}

}  // namespace muster
