// Kills one of several plain ranks. Measures the time until the launcher reacts, until all ranks are gone,
// and until all ranks of the next attempt are in main.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/recovery/contest.h"

namespace muster::bench {

struct Programs {
  std::filesystem::path bin;  // launch and the probes
  std::string self;           // for run_bare
  std::string torchrun;       // empty: skipped
  std::string torch_probe;    // a script for torchrun's Python
};

// Makes three tables for one number of ranks.
std::vector<Table> compare_plain(const Programs& programs, int ranks, int runs);

// Starts the ranks, ends them when one has died, and starts them again. No launcher can be faster.
int run_bare(int ranks, const std::string& probe, const std::string& stamps);

}  // namespace muster::bench
