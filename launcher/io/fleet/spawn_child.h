// Child processes of the launcher: local agents and host shells.
#pragma once

#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

#include "common/base/error.h"

namespace muster::launcher {

struct ChildStreams {
  int input = -1;
  int output = -1;
  int errors = -1;
  int third = -1;  // becomes descriptor 3; -1: there is none
};

// Starts a child process in a session of its own. The child gets only these descriptors. No signal is blocked
// or ignored in the child, even if the launcher blocks or ignores some. If words[0] has no slash, it is
// looked up in PATH. `descriptors` is the child's limit on descriptors. Errors name the program.
Expected<pid_t> spawn_child(std::vector<std::string> words, const ChildStreams& streams,
                            const rlimit& descriptors);

}  // namespace muster::launcher
