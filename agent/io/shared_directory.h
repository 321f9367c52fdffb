// Finds out whether a directory of this host is the launcher's directory with the same path: it looks for a
// file that the launcher has put there.
#pragma once

#include <functional>
#include <string>

namespace muster::agent {

// Returns "" if the directory is the launcher's, or else the reason, worded to follow the directory's name.
// `path`: where the launcher's file is, if the directory is the launcher's. `is_its`: whether a file with
// this text is the launcher's. Opens the file by name, because a network file system may list an old state of
// the directory.
std::string why_not_shared(const std::string& directory, const std::string& path,
                           const std::function<bool(const std::string& text)>& is_its);

}  // namespace muster::agent
