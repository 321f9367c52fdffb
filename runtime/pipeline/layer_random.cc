#include "runtime/pipeline/layer_random.h"

#include <ATen/Context.h>
#include <mutex>
#include <utility>

namespace muster {

namespace {

thread_local LayerRandom* innermost = nullptr;

}  // namespace

// The finalizer of SplitMix64 (Steele, Lea, Flood, 2014).
std::uint64_t mix_seeds(std::uint64_t first, std::uint64_t second) {
  std::uint64_t mixed = first * 0x9e3779b97f4a7c15ULL + second + 0x632be59bd9b4e019ULL;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  return mixed ^ (mixed >> 31);
}

LayerRandom::LayerRandom(std::uint64_t seed, c10::Device device)
    : seed_(seed),
      generator_(at::globalContext().defaultGenerator(device)),
      outer_(std::exchange(innermost, this)) {
  const std::lock_guard lock(generator_.mutex());
  before_ = generator_.clone();
}

LayerRandom::~LayerRandom() {
  innermost = outer_;
  const at::Tensor state = before_.get_state();
  const std::lock_guard lock(generator_.mutex());
  generator_.set_state(state);
}

void begin_layer(std::uint64_t layer) {
  if (innermost == nullptr) return;
  const std::lock_guard lock(innermost->generator_.mutex());
  innermost->generator_.set_current_seed(mix_seeds(innermost->seed_, layer));
}

}  // namespace muster
