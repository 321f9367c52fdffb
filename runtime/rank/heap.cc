#include "runtime/rank/heap.h"

#include <algorithm>
#include <cstdlib>
#include <malloc.h>

namespace muster {

bool reuse_step_memory() {
#ifdef __GLIBC__
  constexpr int kMmapThreshold = 32 << 20;  // the largest value that glibc accepts
  constexpr int kTrimThreshold = 1 << 30;
  const char* const chosen[] = {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_",
                                "GLIBC_TUNABLES"};
  if (std::ranges::any_of(chosen, [](const char* name) { return std::getenv(name) != nullptr; }))
    return false;
  return mallopt(M_MMAP_THRESHOLD, kMmapThreshold) == 1 && mallopt(M_TRIM_THRESHOLD, kTrimThreshold) == 1;
#else
  return false;
#endif
}

}  // namespace muster
