// The machine as this process may use it, which in a container or under `taskset` is less than there is.
//
// Asks the kernel each time; keeps nothing. Safe to call from any thread.
#pragma once

namespace muster {

// The processors that the calling thread may run on; at least 1.
int count_cores();

// Whether a search for NVIDIA's libraries is worth its hundred system calls: a driver's device is there, or
// somebody names places of libraries, which may have another kind of driver.
bool may_have_nvidia_driver();

}  // namespace muster
