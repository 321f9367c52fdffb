// Makes the scripts for bash, zsh and fish. With such a script, the shell completes commands, flags, values
// and names of jobs.
//
// Generated from the tables of commands and flags. The shell gets the names of jobs from `launch ps`. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster::launcher {

// Returns the script for this shell. It is an error if the shell is unknown.
Expected<std::string> completion_for(std::string_view shell);

}  // namespace muster::launcher
