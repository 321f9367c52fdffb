// The random seed of a forked rank: as random as that of an executed rank, unless the program has chosen a
// seed.
//
// Process-wide, like torch's generator. Call it once, right after the fork.
#pragma once

namespace muster {

// torch draws the CPU generator's seed at first use, which happened before main here, so all forks of a
// template share it. If it still has that seed, this draws another one.
void draw_seed_unless_chosen();

}  // namespace muster
