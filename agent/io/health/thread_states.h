// The kernel's view of a process: what each of its threads does and waits for.
//
// Does not involve the process, so this works for any program, stopped or deadlocked. Does not wait. Leaves
// out what it cannot read (no permission, or a thread that has ended).
#pragma once

#include <string>
#include <sys/types.h>

namespace muster::agent {

// Returns at least one line for each thread: "thread 17 (python3): sleeps, system call 202 (futex), in
// futex_do_wait".
std::string describe_threads(pid_t pid);

}  // namespace muster::agent
