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

// Starts a child in a session of its own, with only these descriptors and with no signal blocked or ignored,
// even if the launcher blocks or ignores some. Looks up words[0] in PATH unless it has a slash.
// `descriptors`: the child's descriptor limit. Errors name the program.
Expected<pid_t> spawn_child(std::vector<std::string> words, const ChildStreams& streams,
                            const rlimit& descriptors);

}  // namespace muster::launcher
