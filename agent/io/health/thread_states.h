// Describes what the kernel knows about a process: what each of its threads does, and what it waits for.
//
// The process is not asked, so it can be any program, and stopped or deadlocked. Leaves out what it cannot
// read: without permission, or if a thread has ended. Does not block.
#pragma once

#include <string>
#include <sys/types.h>

namespace muster::agent {

// Returns at least one line for each thread, such as "thread 17 (python3): sleeps, system call 202 (futex),
// in futex_do_wait".
std::string describe_threads(pid_t pid);

}  // namespace muster::agent
