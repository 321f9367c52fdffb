// What is seen to before a job's nodes are started as containers of this machine's engine: that the engine
// can be used, what dead launchers have left there, the image, and the network.
//
// Blocking.
#pragma once

#include "launcher/core/settings/plan.h"
#include "launcher/io/stop_signal.h"

namespace muster::launcher {

// 0, or the exit code of a launch that cannot go on; why has been said, in one line. An image that is pulled
// shows its progress.
int prepare_containers(const Plan& plan, const BeforeJob& setting);

}  // namespace muster::launcher
