// Describes a process from the kernel's view: the state of each of its threads, and the thing for which the
// thread waits.
//
// The process takes no part in this. So it can be any program, even one that is stopped or deadlocked. Facts
// that cannot be read are left out, for example for lack of permission, or because a thread has ended. Does
// not block.
#pragma once

#include <string>
#include <sys/types.h>

namespace muster::agent {

// Returns at least one line for each thread. An example is "thread 17 (python3): sleeps, system call 202
// (futex), in futex_do_wait".
std::string describe_threads(pid_t pid);

}  // namespace muster::agent
