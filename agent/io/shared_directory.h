// Finds out whether a directory of this host is the launcher's directory of the same name, by a file that the
// launcher has put into its directory.
#pragma once

#include <functional>
#include <string>

namespace muster::agent {

// Returns "" if the directory is the launcher's, otherwise the reason, worded to follow the directory's name.
// `path` is the launcher's file in the directory; `is_its` judges from a file's text whether the file is the
// launcher's. Opens the file by name instead of listing the directory, because a network file system may list
// an old state.
std::string why_not_shared(const std::string& directory, const std::string& path,
                           const std::function<bool(const std::string& text)>& is_its);

}  // namespace muster::agent
