// Sets all random generators that a training program uses from one seed, and chooses whether results are
// deterministic.
//
// Call seed_everything() after init() and before the model is created. Only one thread may call it.
#pragma once

#include <cstdint>

namespace muster {

struct SeedOptions {
  // true: two equal runs give the same bits. Sets torch.use_deterministic_algorithms(True) and
  // cudnn.deterministic, turns cudnn.benchmark off, and sets CUBLAS_WORKSPACE_CONFIG=:4096:8 unless that
  // variable is set already. An operator without a deterministic form throws c10::Error; uninitialized memory
  // is filled with NaN. This is slower on GPUs. Runs are equal only with the same number of ranks and
  // threads, which determine the order of additions.
  bool deterministic = false;
};

// Seeds torch's generators (CPU and all GPUs) and the C library's rand(). Add the rank to the seed if ranks
// should draw different numbers. Data loaders have their own seed. Without `deterministic` torch's other
// settings stay as they are.
void seed_everything(std::uint64_t seed, const SeedOptions& options = {});

}  // namespace muster
