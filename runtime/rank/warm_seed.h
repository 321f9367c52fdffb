// The seed of a rank that was forked: as random as that of one that was executed, unless the program has
// chosen one.
//
// Process-wide, like torch's generator. Once, right after the fork.
#pragma once

namespace muster {

// torch draws the CPU generator's seed when it is first touched, which happened before main here: all forks
// of a template have that one. Draws another, if it is still the one from before main.
void draw_seed_unless_chosen();

}  // namespace muster
