// Finds out whether a directory of this host is the same directory as the launcher's, and not just one with
// the same path. For this it looks for a file that the launcher has put there.
#pragma once

#include <functional>
#include <string>

namespace muster::agent {

// Returns "" if `directory` is the launcher's directory. Otherwise returns the reason, in words that can
// follow the directory's name. The launcher has put a file into its directory. If `directory` is the same
// directory, this file is at `path`. `is_its` gets the text of the file at `path`, and returns whether this
// is the launcher's file. The function opens the file by its name, because a network file system may list an
// old state of the directory.
std::string why_not_shared(const std::string& directory, const std::string& path,
                           const std::function<bool(const std::string& text)>& is_its);

}  // namespace muster::agent
