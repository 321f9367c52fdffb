// Whether the program can be started, looked at before anything is: a wrong name should not cost an agent.
//
// Agents look again, each on its own node. Reads the file system only.
#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"

namespace muster::launcher {

// `search_path` is PATH. kNotFound (exit code 127) or kPermission (126).
Status check_program(const std::vector<std::string>& command, const std::string& search_path);

}  // namespace muster::launcher
