// The part of the machine that this process may use: less than all of it in a container or under `taskset`.
//
// Asks the kernel each time; keeps nothing. Safe to call from any thread.
#pragma once

namespace muster {

// Returns how many processors the calling thread may run on; at least 1.
int count_cores();

// Returns whether to search for NVIDIA's libraries, which takes a hundred system calls: the driver's device
// exists, or the environment names folders with libraries, perhaps with another kind of driver.
bool may_have_nvidia_driver();

}  // namespace muster
