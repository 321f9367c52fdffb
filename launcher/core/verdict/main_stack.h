// Reads the main thread from a dump of a rank's stacks. It shows where the rank is, and whether other ranks
// are at the same place.
//
// It understands five forms of dumps: that of the runtime, those of Python's faulthandler, of py-spy and of
// eu-stack, and the kernel's view, which an agent writes for other programs. In any other text, each line
// counts as a frame. Pure.
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
  // If torch records collectives, these are the newest ones, one for each group.
  struct Collective {
    std::int64_t number = 0;
    std::string text;  // "all_reduce of Float [4]"
  };
  std::map<std::string, Collective> collectives{};
};

MainStack main_stack_of(std::string_view dump);

// Returns lines that show what the thread does. The first line is the activity, if it is known. At most
// `count` frames follow, without offsets. They begin with the program's call of MPI. If there is none, they
// begin with the innermost frame outside of the system's libraries. They end with main(). If the stack has no
// frames, or only frames of the kernel, the state takes their place.
std::vector<std::string> shown_lines(const MainStack& stack, std::size_t count);

// Returns a line for each group whose ranks have entered different numbers of collectives. A line is like
// "rank 1 has not entered collective 41 of group 'world': all_reduce of Float [4]".
std::vector<std::string> missing_in_collectives(const std::map<Rank, MainStack>& stacks);

// Returns whether the rank is in a collective, or in a request to the store. There, it may be waiting for
// another rank.
bool waits_for_others(const MainStack& stack);

// Compares the stacks of the ranks frame by frame, beginning with main(). At some depth they differ for the
// first time. If more than half of the ranks have the same frame there, this returns the other ranks.
// Otherwise it returns none. It also returns none if the stacks do not differ, or if a rank reports its
// activity, because pipeline stages differ by nature.
std::vector<Rank> unlike_most(const std::map<Rank, MainStack>& stacks);

}  // namespace muster::launcher
