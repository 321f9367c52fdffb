#include "runtime/comm/mpi/library.h"

#include <dlfcn.h>
#include <stdexcept>

namespace muster {
namespace {

MpiFunction* load_mpi() {
#ifdef MUSTER_MPI
  // What Open MPI loads by itself needs its symbols.
  void* const library = dlopen("libmuster_mpi.so", RTLD_NOW | RTLD_GLOBAL);
  void* const function = library == nullptr ? nullptr : dlsym(library, kMpiFunction);
  if (function == nullptr)
    throw std::runtime_error(std::string("backend 'mpi' cannot be loaded: ") + dlerror());
  return reinterpret_cast<MpiFunction*>(function);
#else
  throw std::runtime_error("backend 'mpi' is not there: Muster was built without MPI");
#endif
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_mpi(MpiRequest request) {
  static MpiFunction* const function = load_mpi();
  function(&request);
  return request.backend;
}

}  // namespace muster
