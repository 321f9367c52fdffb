// Reads the main thread from a dump of a rank's stacks: where it is, and whether other ranks are at the same
// place.
//
// Understands five forms: the runtime's, the kernel's view that an agent writes for other programs, Python's
// faulthandler, py-spy and eu-stack. Any other text counts as frames, one per line. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace muster::launcher {

struct MainStack {
  std::string activity;  // within a step: "stage 1: forward of microbatch 3"; few programs report it
  std::string state;     // "sleeps, system call 230 (clock_nanosleep), in hrtimer_nanosleep"
  std::vector<std::string> frames;  // the innermost first
  // The newest collective of each group, if torch records them.
  struct Collective {
    std::int64_t number = 0;
    std::string text;  // "all_reduce of Float [4]"
  };
  std::map<std::string, Collective> collectives{};
};

MainStack main_stack_of(std::string_view dump);

// Returns the activity, if known, then at most `count` frames without offsets. They begin with the program's
// call of MPI, or else with the innermost frame outside of the system's libraries, and end with main(). If
// the stack has no frames, or only the kernel's, returns the state in place of frames.
std::vector<std::string> shown_lines(const MainStack& stack, std::size_t count);

// A line for each group whose ranks have entered different numbers of collectives: "rank 1 has not entered
// collective 41 of group 'world': all_reduce of Float [4]".
std::vector<std::string> missing_in_collectives(const std::map<Rank, MainStack>& stacks);

// Whether the rank is in a collective or in a request to the store: it may wait there for another rank.
bool waits_for_others(const MainStack& stack);

// Compares the stacks frame by frame, from main() inwards. At the first depth where they differ, returns the
// ranks whose frame is not that of more than half of the ranks. Returns none if
// - the stacks do not differ, or no frame has such a majority;
// - a rank reports its activity: pipeline stages differ by nature.
std::vector<Rank> unlike_most(const std::map<Rank, MainStack>& stacks);

}  // namespace muster::launcher
