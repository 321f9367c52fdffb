// Knows the names of all environment variables that begin with MUSTER_. With these, it finds variables that a
// user has mistyped.
//
// options.h reads the variables of flags. A new variable that belongs to no flag is added to the list in
// variables.cc. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/settings/options.h"

namespace muster::launcher {

// Returns the name of a flag's environment variable. For the prefix MUSTER_ and the flag gpus-per-node it is
// MUSTER_GPUS_PER_NODE.
std::string variable_name(std::string_view prefix, std::string_view flag);
// Returns false if only a command line can have the flag, as with --help.
bool has_variable(const Flag& flag);

// Returns notices about variables whose names the user may have mistyped. These are variables MUSTER_NAME
// that Muster neither reads nor sets, but whose NAME is similar to that of a flag's variable. Other variables
// get no notice, because programs can have variables of their own that begin with MUSTER_.
std::vector<std::string> notices_of_variables(const Environment& environment);

}  // namespace muster::launcher
