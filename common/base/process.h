// This process and those below it, as launcher and agent both need them.
//
// A child subreaper inherits every orphan below it, those with a session of their own included. Nothing here
// waits. Not between fork and exec.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

#include "common/base/error.h"

namespace muster {

// From now on orphans below this process become its children.
void become_subreaper();

// This process runs little, but when it has something to do it should not wait for the long slices of a busy
// machine's other processes. Its children have the usual ones. Linux 6.12 and newer; no privilege is needed.
void ask_for_short_slices();

// All children, zombies included. Fails if /proc cannot be read, for want of a descriptor perhaps.
Expected<std::vector<pid_t>> list_children();

// Descriptors 0 to 2 are taken from here on: what is opened later must not land there and be taken for
// output.
void open_standard_streams();

// Lets this process have as many descriptors as it may. What it might have before, which is what those that
// it executes should get.
rlimit raise_descriptor_limit();

// Memory that is given back is kept for what is taken next. The ranks' output comes and goes in pieces for
// which malloc would turn to the kernel each time: a fresh page costs more than copying one.
void keep_freed_memory();

std::map<std::string, std::string, std::less<>> own_environment();

}  // namespace muster
