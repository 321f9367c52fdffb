// Starts the ranks of a pipeline's test.
#pragma once

#include <muster/comm/spawn.h>
#include <torch/torch.h>
#include <utility>

namespace muster {

constexpr std::int64_t kWidth = 6;

// Ranks that share the processors, as ranks of one machine do.
template <class Body>
void spawn_ranks(int ranks, const Body& body) {
  spawn(
      [&](Job& job) {
        torch::set_num_threads(1);
        body(job);
      },
      ranks);
}

// The layers of stage s.
inline std::pair<int, int> layers_of(int stage, int num_stages, int layers) {
  return {stage * layers / num_stages, (stage + 1) * layers / num_stages};
}

}  // namespace muster
