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

// In a session of its own, nothing blocked or ignored, whatever the launcher inherited or does, and with no
// other descriptor. words[0] is looked up in PATH unless it has a slash. `descriptors`: its limit. Errors
// name the program.
Expected<pid_t> spawn_child(std::vector<std::string> words, const ChildStreams& streams,
                            const rlimit& descriptors);

}  // namespace muster::launcher
