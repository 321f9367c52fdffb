// Runs one seed, many seeds in several processes, or the smallest part of a seed that still fails.
//
// A seed that ends its process (a CHECK) is a failure like another, and the seeds after it are run all the
// same. Starts child processes and waits for them; call it from one thread, before there are others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/simulation/cluster.h"

namespace muster::simulation {

struct Size {
  int nodes = 8;
  int ranks = 4;  // of each node
};

struct SeedResult {
  std::uint64_t seed = 0;
  std::vector<std::string> failures;  // a line each
  std::array<int, kFaultKindCount> faults{};
  double virtual_seconds = 0;
  std::uint64_t event_count = 0;
};

SeedResult run_seed(std::uint64_t seed, const Size& size,
                    const std::function<void(const std::string&)>& trace = {});
SeedResult run_script(const Script& script, std::uint64_t seed,
                      const std::function<void(const std::string&)>& trace = {});

// `done` hears of each, in no order.
void run_seeds(std::uint64_t first, std::uint64_t count, const Size& size,
               const std::function<void(const SeedResult&)>& done);

// What is left of a script that fails when no fault can be dropped without it succeeding.
Script shrink(Script script, const std::function<bool(const Script&)>& fails);
// The same of the script of a seed.
Script shrink(std::uint64_t seed, const Size& size);

}  // namespace muster::simulation
