// The random seed of a forked rank: as random as that of an executed rank, unless the program has chosen a
// seed.
//
// Process-wide, like torch's generator. Call it once, right after the fork.
#pragma once

namespace muster {

// All forks of a template have the CPU generator's seed that torch drew before main. This function draws
// another one, unless the program has set a seed.
void draw_seed_unless_chosen();

}  // namespace muster
