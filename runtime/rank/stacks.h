// The stacks of all threads of this running process, even if its main thread is in a deadlock.
//
// A signal makes one thread after the other record where it is: only addresses, so the handler needs no lock
// and no memory. The calling thread, which is not shown, turns the addresses into text. If a thread blocks
// the signal or does not answer, the text has only the thread's state in the kernel. One signal and one
// handler per process; call all functions from one thread.
#pragma once

#include <chrono>
#include <string>

namespace muster {

// Chooses a real-time signal without a handler, and loads the code that unwinding needs. Returns false if no
// signal is free. A second call keeps the first signal.
bool prepare_stacks();

// Takes at most `limit`, whatever the threads do. Call prepare_stacks() first. The handler interrupts system
// calls of the program (SA_RESTART is set).
std::string describe_stacks(std::chrono::milliseconds limit);

}  // namespace muster
