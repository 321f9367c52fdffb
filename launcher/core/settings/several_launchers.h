// Refuses a launch that believes itself to be one of several: torchrun is started once on every node,
// `launch` once.
//
// Started on every node all the same, each launch would run the whole job, and all of them would write one
// checkpoint directory. Pure.
#pragma once

#include "launcher/core/settings/options.h"

namespace muster::launcher {

// Errors name the flag or variable and the command to use instead.
Status refuse_several_launchers(const Settings& settings, const Options& options, const Surroundings& here);

}  // namespace muster::launcher
