// Users start torchrun on every node, but `launch` only once. This refuses a launch whose flags or
// environment say that it is one of several.
//
// If it were not refused, each of the launches would run the whole job, and all of them would write to one
// checkpoint directory. Pure.
#pragma once

#include "launcher/core/settings/options.h"

namespace muster::launcher {

// If the user starts several launchers, returns an error. It names the flag or variable that shows this, and
// the command to use instead.
Status refuse_several_launchers(const Settings& settings, const Options& options, const Surroundings& here);

// Returns a notice if all nodes start on this machine, but --master-addr or --rdzv-endpoint names this
// machine. With torchrun, a user gives this flag on the first of several hosts. So the user may expect that
// other hosts take part, too. If the flag names localhost, there is no notice, because other hosts could not
// reach that address.
std::optional<std::string> notice_of_one_machine(const Settings& settings, const Options& options,
                                                 const Surroundings& here);

}  // namespace muster::launcher
