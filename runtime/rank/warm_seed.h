// Gives a forked rank a random seed of its own, as an executed rank has. If the program has chosen a seed,
// nothing changes.
//
// The seed is that of torch's generator, which the whole process uses. Call the function once, right after
// the fork.
#pragma once

namespace muster {

// torch draws the seed of the CPU generator before main. So all forks of a template would have the same seed.
// This function draws another one, unless the program has set a seed.
void draw_seed_unless_chosen();

}  // namespace muster
