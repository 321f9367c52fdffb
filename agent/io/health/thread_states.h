// The kernel's view of a process: what each of its threads does and waits for.
//
// Nothing is asked of the process, so that this works for a stopped or deadlocked one and for any program.
// Does not wait. Missing parts (rights, a thread that has ended) are left out.
#pragma once

#include <string>
#include <sys/types.h>

namespace muster::agent {

// A line or more a thread: "thread 17 (python3): sleeps, system call 202 (futex), in futex_do_wait".
std::string describe_threads(pid_t pid);

}  // namespace muster::agent
