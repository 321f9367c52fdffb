#include "runtime/comm/mpi/library.h"

#include <dlfcn.h>
#include <stdexcept>

#include "runtime/rank/loaded_torch.h"

namespace muster {
namespace {

MpiFunction* load_mpi() {
#ifdef MUSTER_MPI
  const Module loaded = load_module("libmuster_mpi.so");
  void* const function = loaded.handle == nullptr ? nullptr : dlsym(loaded.handle, kMpiFunction);
  if (function == nullptr)
    throw std::runtime_error("backend 'mpi' cannot be loaded: " +
                             (loaded.handle == nullptr ? loaded.error : std::string(dlerror())));
  return reinterpret_cast<MpiFunction*>(function);
#else
  throw std::runtime_error("backend 'mpi' is not available: Muster was built without MPI");
#endif
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_mpi(MpiRequest request) {
  static MpiFunction* const function = load_mpi();
  function(&request);
  return request.backend;
}

}  // namespace muster
