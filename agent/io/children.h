// The processes that end up as children of this one: workers, and what workers left behind.
//
// A child subreaper inherits every orphan below it, those with a session of their own included. Nothing here
// waits.
#pragma once

#include <functional>
#include <sys/types.h>
#include <vector>

namespace muster::agent {

// From now on orphans below this process become its children.
void become_subreaper();

// All children, zombies included.
std::vector<pid_t> list_children();

// Reaps children that have ended, until `keep` says of the next one that somebody else waits for it.
void reap_orphans(const std::function<bool(pid_t)>& keep);

}  // namespace muster::agent
