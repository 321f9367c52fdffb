// Checks that the program can be started, before the launcher starts any agent.
//
// Agents check again, each on its own node. Only reads the file system.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/wire/words.h"

namespace muster::launcher {

// `search_path` is PATH. Errors: kNotFound (exit code 127) or kPermission (126).
Status check_program(const std::vector<std::string>& command, const std::string& search_path);

// The MPI that the program is built with; nothing if the file does not exist or cannot be read.
std::optional<wire::Mpi> mpi_of_file(const std::vector<std::string>& command, const std::string& search_path);

}  // namespace muster::launcher
