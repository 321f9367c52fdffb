// Seeds the random numbers of a layer (dropout) in a pipeline by step, microbatch and the layer's place in
// the undivided model.
//
// So every schedule, every cut and a single process draw the same numbers, and a forward pass that is
// computed again draws them again. Uses torch's default generator of a device; for one thread at a time.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <cstdint>

namespace muster {

// While a LayerRandom lives, begin_layer() in this thread seeds the device's generator. The destructor
// restores the generator's state.
class LayerRandom {
 public:
  // `seed`: the microbatch's.
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

// Starts the layer with this number in the undivided model. Does nothing without a LayerRandom.
void begin_layer(std::uint64_t layer);

// Mixes two numbers well into one.
std::uint64_t mix_seeds(std::uint64_t first, std::uint64_t second);

}  // namespace muster
