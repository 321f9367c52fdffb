// Kills one of several LibTorch ranks. Measures the time until init() has returned in all ranks of the next
// attempt, the time of the first start, and the ranks' memory, for forked and executed ranks.
#pragma once

#include <vector>

#include "bench/recovery/plain.h"

namespace muster::bench {

// Makes three tables for one number of ranks.
std::vector<Table> compare_torch(const Programs& programs, int ranks, int runs);

}  // namespace muster::bench
