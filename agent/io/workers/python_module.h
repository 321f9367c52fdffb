// The Python module `muster` (python/), which the agent contains: workers can import it wherever the agent
// was delivered, without installation.
//
// Python imports from the file as from a folder. Holds nothing.
#pragma once

#include <string>

#include "common/base/error.h"

namespace muster::agent {

// Writes the module into the directory. Returns the file's path, to be appended to PYTHONPATH.
Expected<std::string> write_python_module(const std::string& directory);

}  // namespace muster::agent
