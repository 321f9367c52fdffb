// What the training thread is at within a step, for what is said of a hang and of a slow rank: each
// microbatch may set it.
//
// Process-wide, as sections are; unlike them it has no limit of its own, and is not told by itself. Safe from
// any thread.
#pragma once

#include <string>

namespace muster {

// Of the model, which of its parts this rank has: "stage 1". For all that follows.
void set_model_part(std::string part);
std::string model_part();

// "stage 1: forward of microbatch 3"; "": nothing that is known.
void set_activity(std::string what);
std::string activity();

}  // namespace muster
