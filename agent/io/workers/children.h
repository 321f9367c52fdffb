// Reaping what ends up as a child of this process: what workers left behind.
//
// become_subreaper() and list_children() are in common/base/process.h. Nothing here waits.
#pragma once

#include <functional>
#include <sys/types.h>

namespace muster::agent {

// Reaps children that have ended, until `keep` says of the next one that somebody else waits for it.
void reap_orphans(const std::function<bool(pid_t)>& keep);

}  // namespace muster::agent
