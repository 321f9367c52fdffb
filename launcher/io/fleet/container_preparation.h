// What is seen to before a job's nodes are started as containers of this machine's engine: that the engine
// can be used, what dead launchers have left there, the image, and the network.
//
// Blocking.
#pragma once

#include <functional>
#include <string>

#include "launcher/core/settings/plan.h"

namespace muster::launcher {

struct PreparationSetting {
  int signals;  // a signalfd: the first of INT, TERM, HUP and QUIT ends it; -1: none
  std::function<void(const std::string&)> say;
};

// 0, or the exit code of a launch that cannot go on; why has been said, in one line. An image that is pulled
// shows its progress.
int prepare_containers(const Plan& plan, const PreparationSetting& setting);

}  // namespace muster::launcher
