#include <muster/data/cached_dataset.h>

#include "runtime/data/argument.h"

namespace muster::detail {

void check_cache_limit(std::int64_t limit_bytes) {
  check_argument(limit_bytes >= 1, "CachedDataset: limit_bytes", limit_bytes, "at least 1");
}

}  // namespace muster::detail
