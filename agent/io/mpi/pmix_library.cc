#include "agent/io/mpi/pmix_library.h"

#include <dlfcn.h>

#include "common/base/program.h"

namespace muster::agent {

namespace {

Expected<Pmix*> load_module() {
  // The module is linked without this library, and finds its functions because they are global. All releases
  // of PMIx since 3.0 have the same name.
  if (dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return failure(ErrorCode::kInternal,
                   "--mpi pmix needs the PMIx library on every node (Debian's libpmix2): {}", dlerror());
  const auto entry = function_beside_own_program(MUSTER_PMIX_MODULE, "muster_pmix", "--mpi pmix");
  if (!entry) return std::unexpected(entry.error());
  return reinterpret_cast<decltype(&muster_pmix)>(*entry)();
}

}  // namespace

Expected<Pmix*> Pmix::load() {
  static const Expected<Pmix*> loaded = load_module();
  return loaded;
}

}  // namespace muster::agent
