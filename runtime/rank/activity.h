// The training thread's current activity within a step, for the reports of hangs and slow ranks. It can
// change with every microbatch.
//
// There is one activity per process, as for sections. Unlike a section, an activity has no time limit, and no
// report is sent when it changes. Any thread can call the functions.
#pragma once

#include <string>

namespace muster {

// The part of the model that this rank has, such as "stage 1". Each "step" report contains it.
void set_model_part(std::string part);
std::string model_part();

// A text such as "stage 1: forward of microbatch 3". It is empty if the activity is unknown.
void set_activity(std::string what);
std::string activity();

}  // namespace muster
