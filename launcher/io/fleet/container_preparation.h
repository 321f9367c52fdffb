// Prepares this machine's Docker Engine before a job's nodes start as its containers.
//
// Checks that the engine can be used, removes what dead launchers have left there, finds the network, and
// finds or pulls the image. Blocking.
#pragma once

#include "launcher/core/settings/plan.h"
#include "launcher/io/stop_signal.h"

namespace muster::launcher {

// Returns 0, or the exit code with which the launch has to end, after it has said why in one line. Shows
// progress while it pulls an image.
int prepare_containers(const Plan& plan, const BeforeJob& setting);

}  // namespace muster::launcher
