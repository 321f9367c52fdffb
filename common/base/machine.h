// The part of the machine that this process may use: less than all of it in a container or under `taskset`.
//
// Asks the kernel each time; keeps nothing. Safe to call from any thread.
#pragma once

namespace muster {

// The processors that the calling thread may run on; at least 1.
int count_cores();

// Whether it is worth searching for NVIDIA's libraries, which takes a hundred system calls: the driver's
// device exists, or the environment names folders with libraries, which may include another kind of driver.
bool may_have_nvidia_driver();

}  // namespace muster
