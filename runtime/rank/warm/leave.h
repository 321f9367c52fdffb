// How a forked rank ends: as every process does, except that the destructors of LibTorch's own libraries do
// not run.
//
// LibTorch takes its registry of operators apart when a process ends. That writes to thousands of pages that
// a forked rank shares with its template, so the kernel first copies each of them, only to free it a moment
// later: 0.1 s for nothing. So a forked rank does everything else that exit() does (the functions of atexit()
// and on_exit(), the destructors of the program and of all other libraries, and the flush of all streams) and
// leaves the rest to the kernel. These functions do not run: functions that a library gave to on_exit()
// before main, and the destructors of LibTorch's libraries and of the slow libraries of CUDA. Only a tool
// that looks for the destructors would miss them. _exit(), quick_exit() and signals end a rank as ever.
#pragma once

namespace muster::warm {

// From now on exit() ends this process, and those that it forks, without LibTorch's destructors. In two kinds
// of programs this changes nothing: in a program with a sanitizer, because the sanitizer's checks at the end
// need the destructors, and in a program that has not loaded LibTorch.
void leave_torch_behind();

}  // namespace muster::warm
