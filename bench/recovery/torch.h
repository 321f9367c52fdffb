// LibTorch ranks, of which one is killed: how long until init() has returned in all of the next attempt, how
// long the first start takes and what memory the ranks hold, forked and executed.
#pragma once

#include <vector>

#include "bench/recovery/plain.h"

namespace muster::bench {

// Three tables for one number of ranks.
std::vector<Table> compare_torch(const Programs& programs, int ranks, int runs);

}  // namespace muster::bench
