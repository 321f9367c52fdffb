// Looks before a job's start for GPUs that other users fill.
#pragma once

#include <string>
#include <vector>

#include "launcher/commands/prepare.h"

namespace muster::launcher {

// Adds a notice for each GPU of the job that another user fills. With --wait-for-gpus, waits until they are
// free, and prints for which GPU it waits. Returns 0 if the job can start. If GPUs are still in use when the
// time is over, prints that, and returns an exit code. A signal of `signals` ends the wait. Blocking.
int settle_gpu_use(const Prepared& prepared, const Surroundings& here, int signals,
                   std::vector<std::string>& notices);

}  // namespace muster::launcher
