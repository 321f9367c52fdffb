// What a dump of a rank's stacks says of its main thread: where it is, and whether it is where the others
// are.
//
// Reads five forms: our runtime's, the kernel's view that an agent writes for other programs, and those of
// Python's faulthandler, of py-spy and of eu-stack. Text of any other form is taken as frames, a line each.
// Pure.
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
  std::string activity;  // within a step: "stage 1: forward of microbatch 3"; known of few programs
  std::string state;     // "sleeps, system call 230 (clock_nanosleep), in hrtimer_nanosleep"
  std::vector<std::string> frames;  // the innermost first
  // By group, where torch records them: the newest collective.
  struct Collective {
    std::int64_t number = 0;
    std::string text;  // "all_reduce of Float [4]"
  };
  std::map<std::string, Collective> collectives{};
};

MainStack main_stack_of(std::string_view dump);

// At most `count` lines for people, after what it is at if that is known: from where the program calls MPI or
// the system's libraries on, without offsets; or the state, if the program's own frames are not known.
std::vector<std::string> shown_lines(const MainStack& stack, std::size_t count);

// For each group whose ranks have not all entered as many collectives: "rank 1 has not come to collective 41
// of the group 'world': all_reduce of Float [4]".
std::vector<std::string> missing_in_collectives(const std::map<Rank, MainStack>& stacks);

// Whether it is in a collective, or asks the store for something: it may be there because another rank is
// not.
bool waits_for_others(const MainStack& stack);

// The ranks whose main thread took another way than most: their stacks, seen from main(), part from the
// others' first. None if all are at one place, or nowhere in particular, or where they say what they are at:
// stages of a pipeline are at different places by nature.
std::vector<Rank> unlike_most(const std::map<Rank, MainStack>& stacks);

}  // namespace muster::launcher
