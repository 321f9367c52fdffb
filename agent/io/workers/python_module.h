// The Python module `muster` (python/), which the agent carries in itself: workers find it, wherever the
// agent was brought to, without its being installed.
//
// Python imports from the file as from a folder. Holds nothing.
#pragma once

#include <string>

#include "common/base/error.h"

namespace muster::agent {

// Writes the module into the directory. The file's path, for the end of PYTHONPATH.
Expected<std::string> write_python_module(const std::string& directory);

}  // namespace muster::agent
