// Finds out which part of the machine this process can use. In a container or under `taskset`, it is not all
// of it.
//
// Asks the kernel at each call. Safe from any thread.
#pragma once

namespace muster {

// Returns how many processors the calling thread is allowed to run on; at least 1.
int count_cores();

// Returns false if there is surely no NVIDIA driver, so that the caller need not search for its libraries,
// which takes a hundred system calls. Returns true if the driver's device exists, or if LD_LIBRARY_PATH is
// set, which may name a driver's folder.
bool may_have_nvidia_driver();

}  // namespace muster
