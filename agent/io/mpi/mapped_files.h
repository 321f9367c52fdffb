// Finds out which files the processes of a rank have mapped. So the agent learns which MPI library a rank has
// loaded, and which shared memory the rank uses.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace muster::agent {

// Returns the paths of the mapped files for which `is_wanted` returns true. Files that were removed are not
// among them.
std::set<std::string> files_mapped_by(const std::set<pid_t>& processes,
                                      const std::function<bool(std::string_view)>& is_wanted);

// Returns the process and its descendants. A rank can be started by a script. So its MPI process may be one
// of the descendants. The function does not find a descendant whose parent has ended, or that another thread
// than its parent's main thread has started.
std::set<pid_t> with_descendants(pid_t process);

}  // namespace muster::agent
