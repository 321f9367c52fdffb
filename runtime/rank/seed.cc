#include <ATen/Context.h>
#include <cstdlib>
#include <muster/rank/seed.h>
#include <torch/utils.h>

namespace muster {
namespace {

void compute_deterministically() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(true);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setDeterministicMkldnn(true);
  // cuBLAS reads this variable at the first use of a GPU. In deterministic mode, torch throws if the variable
  // is not set.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace

void seed_everything(std::uint64_t seed, const SeedOptions& options) {
  torch::manual_seed(seed);
  std::srand(static_cast<unsigned>(seed));
  if (options.deterministic) compute_deterministically();
}

}  // namespace muster
