// The scripts with which bash, zsh and fish complete commands, flags, values and names of jobs.
//
// Generated from the tables of commands and flags. The shell gets the names of jobs from `launch ps`. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster::launcher {

// Errors: an unknown shell.
Expected<std::string> completion_for(std::string_view shell);

}  // namespace muster::launcher
