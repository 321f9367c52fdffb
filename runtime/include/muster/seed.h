// One seed for every generator that a training program uses.
//
// Call it after init() and before the model is made. From one thread.
#pragma once

#include <cstdint>

namespace muster {

// Seeds torch's generators (the CPU's and all GPUs') and the C library's rand(). Ranks that shall draw
// different numbers add their rank to it. Data loaders have their own seed.
void seed_everything(std::uint64_t seed);

}  // namespace muster
