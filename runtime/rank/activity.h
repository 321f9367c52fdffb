// The training thread's current activity within a step, for the reports of hangs and slow ranks. It can
// change with every microbatch.
//
// Process-wide, as sections are. Unlike a section, an activity has no time limit, and no report is sent when
// it changes. Safe from any thread.
#pragma once

#include <string>

namespace muster {

// This rank's part of the model: "stage 1". Each "step" report contains it.
void set_model_part(std::string part);
std::string model_part();

// "stage 1: forward of microbatch 3"; "": unknown.
void set_activity(std::string what);
std::string activity();

}  // namespace muster
