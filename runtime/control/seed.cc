#include <cstdlib>
#include <muster/seed.h>
#include <torch/utils.h>

namespace muster {

void seed_everything(std::uint64_t seed) {
  torch::manual_seed(seed);
  std::srand(static_cast<unsigned>(seed));
}

}  // namespace muster
