// Whether a directory of this host is the launcher's of the same name: the launcher has left a file there.
#pragma once

#include <functional>
#include <string>

namespace muster::agent {

// Empty if it is; else what is wrong, to stand behind its name. `path`: of a file in it; `is_its` says of the
// file's text whether it is the launcher's. The file is opened by its name: a network file system may show a
// directory as it was a moment ago.
std::string why_not_shared(const std::string& directory, const std::string& path,
                           const std::function<bool(const std::string& text)>& is_its);

}  // namespace muster::agent
