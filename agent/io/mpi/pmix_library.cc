#include "agent/io/mpi/pmix_library.h"

#include "common/base/program.h"

namespace muster::agent {

namespace {

Expected<Pmix*> load_module() {
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
