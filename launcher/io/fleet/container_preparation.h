// Prepares the Docker Engine of this machine before the nodes of a job start as containers there.
//
// It checks that the engine can be used, and removes what dead launchers have left there. Then it finds the
// network, and finds or pulls the image. Blocking.
#pragma once

#include "launcher/core/settings/plan.h"
#include "launcher/io/stop_signal.h"

namespace muster::launcher {

// Returns 0 if the containers can be started. Otherwise says why not in one line, and returns the exit code
// with which the launch has to end. While it pulls an image, it shows the progress.
int prepare_containers(const Plan& plan, const BeforeJob& setting);

}  // namespace muster::launcher
