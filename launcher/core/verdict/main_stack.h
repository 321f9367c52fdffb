// What a dump of a rank's stacks says of its main thread: where it is, and whether it is where the others
// are.
//
// Reads four forms: our runtime's, the kernel's view that an agent writes for other programs, and those of
// Python's faulthandler and of py-spy. Text of any other form is taken as frames, a line each. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace muster::launcher {

struct MainStack {
  std::string state;                // "sleeps, system call 230 (clock_nanosleep), in hrtimer_nanosleep"
  std::vector<std::string> frames;  // the innermost first
};

MainStack main_stack_of(std::string_view dump);

// At most `count` lines for people: from where the program calls the system's libraries on, without offsets;
// or the state, if the program's own frames are not known.
std::vector<std::string> shown_lines(const MainStack& stack, std::size_t count);

// Whether it is in a collective, or asks the store for something: it may be there because another rank is
// not.
bool waits_for_others(const MainStack& stack);

// The ranks whose main thread took another way than most: their stacks, seen from main(), part from the
// others' first. None if all are at one place, or nowhere in particular.
std::vector<Rank> unlike_most(const std::map<Rank, MainStack>& stacks);

}  // namespace muster::launcher
