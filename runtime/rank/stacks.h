// The stacks of all threads of this running process, even if its main thread is in a deadlock.
//
// A signal makes one thread after the other record where it is. The handler only records addresses, so it
// needs no lock and no memory. The calling thread, which is not shown, turns the addresses into text. If a
// thread blocks the signal or does not answer, the text has only the thread's state in the kernel. There is
// one signal and one handler per process. Only one thread may call the functions.
#pragma once

#include <chrono>
#include <string>

namespace muster {

// Prepares describe_stacks(): chooses a real-time signal without a handler, and loads the library that reads
// stacks. Returns false if no signal is free. A second call keeps the signal of the first.
bool prepare_stacks();

// Returns the stacks of all threads. Call prepare_stacks() before. describe_stacks() takes at most `limit`,
// even if a thread does not answer. Each thread is interrupted by a signal; SA_RESTART is set, so system
// calls of the program continue.
std::string describe_stacks(std::chrono::milliseconds limit);

}  // namespace muster
