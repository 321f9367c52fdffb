// The scripts with which bash, zsh and fish complete commands, flags, values and names of jobs.
//
// Made from the tables of commands and flags; the names of jobs are asked of `launch ps` by the shell. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster::launcher {

// Errors: a shell that is not known.
Expected<std::string> completion_for(std::string_view shell);

}  // namespace muster::launcher
