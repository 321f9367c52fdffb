// The random numbers of a layer (dropout) in a pipeline: those of its step, its microbatch and its place in
// the undivided model, wherever it runs and in whatever order.
//
// So every schedule, every cut and a single process draw the same, and a forward that is computed again does
// too. Of torch's default generator of a device, for one thread at a time.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <cstdint>

namespace muster {

// While it lives, begin_layer() on this thread seeds; then the generator goes on as if nothing had been.
class LayerRandom {
 public:
  // `seed`: of the microbatch.
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

// What follows belongs to this layer, counted in the undivided model. Does nothing without a LayerRandom.
void begin_layer(std::uint64_t layer);

// One number of several, well mixed.
std::uint64_t mix_seeds(std::uint64_t first, std::uint64_t second);

}  // namespace muster
