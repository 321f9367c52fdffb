// Finds the program that workers will execute, before any of them is started.
//
// As a shell does: a name with a slash is a path from the working directory, any other is looked up in PATH.
// Reads the file system only.
#pragma once

#include <string>

#include "common/base/error.h"

namespace muster::agent {

// The path to execute. kNotFound: there is none (exit code 127). kPermission: it cannot be executed (126).
Expected<std::string> find_program(const std::string& name, const std::string& search_path,
                                   const std::string& working_directory);

}  // namespace muster::agent
