// Finds out which part of the machine this process can use. In a container or under `taskset`, that can be
// less than the whole machine.
//
// Asks the kernel at each call. Safe from any thread.
#pragma once

namespace muster {

// Returns the number of processors on which the calling thread is allowed to run. It is at least 1.
int count_cores();

// Returns false if there is surely no NVIDIA driver. Then the caller can do without a search for the driver's
// libraries, which takes a hundred system calls. Returns true if the driver's device exists. Also returns
// true if LD_LIBRARY_PATH is set, because it may name a driver's folder.
bool may_have_nvidia_driver();

}  // namespace muster
