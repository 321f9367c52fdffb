// The names of the environment variables that begin with MUSTER_, to find those that a user has mistyped.
//
// options.h reads the variables of flags. A new variable that belongs to no flag is added to the list in
// variables.cc. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/settings/options.h"

namespace muster::launcher {

// The variable of a flag: MUSTER_GPUS_PER_NODE for the prefix MUSTER_ and the flag gpus-per-node.
std::string variable_name(std::string_view prefix, std::string_view flag);
// False for flags that only a command line has, such as --help.
bool has_variable(const Flag& flag);

// Returns a notice for each variable MUSTER_NAME that Muster neither reads nor sets, if NAME is nearly that
// of a flag's variable. Other names get no notice, because programs can have variables of their own that
// begin with MUSTER_.
std::vector<std::string> notices_of_variables(const Environment& environment);

}  // namespace muster::launcher
