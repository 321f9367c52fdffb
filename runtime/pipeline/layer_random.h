// Seeds the random numbers that a layer of a pipeline draws, for example for dropout. The seed depends on the
// step, the microbatch and the layer's place in the undivided model.
//
// So a layer draws the same numbers in every schedule, with any division into stages, and in a single
// process. If a forward pass is computed again, it draws the same numbers again. The numbers come from
// torch's default generator of the device, so only one thread at a time may use the generator.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <cstdint>

namespace muster {

// While a LayerRandom exists, begin_layer() in this thread seeds the device's generator. The destructor
// restores the generator's state.
class LayerRandom {
 public:
  // `seed` is the seed of the microbatch.
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

// Seeds the generator for the layer with this number in the undivided model. If there is no LayerRandom in
// this thread, does nothing.
void begin_layer(std::uint64_t layer);

// Mixes two numbers into one, so that similar inputs give unrelated results.
std::uint64_t mix_seeds(std::uint64_t first, std::uint64_t second);

}  // namespace muster
