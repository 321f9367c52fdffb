// The stacks of all threads of this process, while it lives: also when its main thread is in a deadlock.
//
// A signal makes each thread, one after the other, note where it is; only addresses, so that the handler
// needs no lock and no memory. The asking thread, which is not shown, makes text of them. A thread that
// blocks the signal or does not answer is shown as the kernel sees it. One signal and one handler per
// process; functions are called from one thread.
#pragma once

#include <chrono>
#include <string>

namespace muster {

// Takes a real-time signal that the program has no handler for, and loads what unwinding needs. False if none
// is left. Calling it again keeps the first.
bool prepare_stacks();

// At most `limit`, whatever the threads do. After prepare_stacks(). Interrupts system calls of the program
// that a handler interrupts (SA_RESTART is set).
std::string describe_stacks(std::chrono::milliseconds limit);

}  // namespace muster
