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
// among them. The function looks at `process` and at its descendants, because a rank can be started by a
// script. It does not find a descendant whose parent has ended or is not the parent's main thread.
std::set<std::string> files_mapped_by(pid_t process, const std::function<bool(std::string_view)>& is_wanted);

}  // namespace muster::agent
