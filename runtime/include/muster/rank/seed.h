// One seed for every generator that a training program uses, and whether equal runs must give equal bits.
//
// Call it after init() and before the model is made. From one thread.
#pragma once

#include <cstdint>

namespace muster {

struct SeedOptions {
  // Runs that are alike give the same bits: torch.use_deterministic_algorithms(True) with
  // cudnn.deterministic, without cudnn.benchmark, and CUBLAS_WORKSPACE_CONFIG=:4096:8, unless that is set
  // already. An operator that has no such form throws c10::Error; memory that is not set is NaN, rather than
  // anything. Slower on GPUs. Alike means the same number of ranks and threads too: it is the order in which
  // numbers are added up.
  bool deterministic = false;
};

// Seeds torch's generators (the CPU's and all GPUs') and the C library's rand(). Ranks that shall draw
// different numbers add their rank to it. Data loaders have their own seed. Without `deterministic` how
// torch computes is left as it is.
void seed_everything(std::uint64_t seed, const SeedOptions& options = {});

}  // namespace muster
