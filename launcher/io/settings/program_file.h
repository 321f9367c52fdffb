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

// Checks whether the program can be executed. `search_path` is the value of PATH. If the program cannot be
// executed, returns kNotFound or kPermission. `launch` then exits with 127 for kNotFound, and with 126 for
// kPermission.
Status check_program(const std::vector<std::string>& command, const std::string& search_path);

// Returns the path of the script that the command runs, if that is a file of this machine. This is a word
// that ends in .py after Python and its options, or the program itself. Otherwise returns "".
std::string script_of(const std::vector<std::string>& command, const std::string& search_path);

// Returns the MPI that the program was built with. Returns nothing if the file does not exist or cannot be
// read.
std::optional<wire::Mpi> mpi_of_file(const std::vector<std::string>& command, const std::string& search_path);

}  // namespace muster::launcher
