// Runs one seed, or many seeds in several processes; or shrinks a failing seed to the fewest faults.
//
// A seed that ends its process (a CHECK) is a failure, and the next seeds still run. Starts child processes
// and waits for them; call it from the only thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/simulation/cluster.h"

namespace muster::simulation {

struct Size {
  int nodes = 8;
  int ranks = 4;  // on each node
};

struct SeedResult {
  std::uint64_t seed = 0;
  std::vector<std::string> failures;  // one line each
  std::array<int, kFaultKindCount> faults{};
  double virtual_seconds = 0;
  std::uint64_t event_count = 0;
};

SeedResult run_seed(std::uint64_t seed, const Size& size,
                    const std::function<void(const std::string&)>& trace = {});
SeedResult run_script(const Script& script, std::uint64_t seed,
                      const std::function<void(const std::string&)>& trace = {});

// Calls `done` for each seed, in no fixed order.
void run_seeds(std::uint64_t first, std::uint64_t count, const Size& size,
               const std::function<void(const SeedResult&)>& done);

// Drops faults from a failing script until dropping any other fault would make it succeed.
Script shrink(Script script, const std::function<bool(const Script&)>& fails);
// The same for the script of a seed.
Script shrink(std::uint64_t seed, const Size& size);

}  // namespace muster::simulation
