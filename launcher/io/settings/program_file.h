// Whether the program can be started, looked at before anything is: a wrong name should not cost an agent.
//
// Agents look again, each on its own node. Reads the file system only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/wire/words.h"

namespace muster::launcher {

// `search_path` is PATH. kNotFound (exit code 127) or kPermission (126).
Status check_program(const std::vector<std::string>& command, const std::string& search_path);

// Which MPI the program is built with; nothing if it is not there, or cannot be read.
std::optional<wire::Mpi> mpi_of_file(const std::vector<std::string>& command, const std::string& search_path);

}  // namespace muster::launcher
