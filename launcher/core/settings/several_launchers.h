// Refuses a launch whose flags or environment say that it is one of several: users start torchrun on every
// node, but `launch` only once.
//
// Otherwise each launch would run the whole job, and all of them would write to one checkpoint directory.
// Pure.
#pragma once

#include "launcher/core/settings/options.h"

namespace muster::launcher {

// Errors: the flag or variable, and the command to use instead.
Status refuse_several_launchers(const Settings& settings, const Options& options, const Surroundings& here);

// Returns a notice if all nodes start here, but --master-addr or --rdzv-endpoint names this machine, as on
// the first of several hosts. Returns none for localhost, which cannot mean several hosts.
std::optional<std::string> notice_of_one_machine(const Settings& settings, const Options& options,
                                                 const Surroundings& here);

}  // namespace muster::launcher
