// Seeds the random numbers of a layer (dropout) in a pipeline by step, microbatch and the layer's place in
// the undivided model.
//
// So a layer draws the same numbers in every schedule, with any division into stages, and in a single
// process. A recomputed forward pass draws them again. Uses the device's default generator of torch: only one
// thread at a time is allowed to use it.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <cstdint>

namespace muster {

// While a LayerRandom lives, begin_layer() in this thread seeds the device's generator. The destructor
// restores the generator's state.
class LayerRandom {
 public:
  // `seed`: the microbatch's seed.
  LayerRandom(std::uint64_t seed, c10::Device device);
  LayerRandom(const LayerRandom&) = delete;
  LayerRandom& operator=(const LayerRandom&) = delete;
  ~LayerRandom();

 private:
  friend void begin_layer(std::uint64_t layer);
  std::uint64_t seed_;
  at::Generator generator_;
  at::Generator before_;
  LayerRandom* outer_;
};

// Seeds the generator for the layer with this number in the undivided model. Does nothing if
// no LayerRandom lives.
void begin_layer(std::uint64_t layer);

// Mixes two numbers into one, so that similar inputs give unrelated results.
std::uint64_t mix_seeds(std::uint64_t first, std::uint64_t second);

}  // namespace muster
