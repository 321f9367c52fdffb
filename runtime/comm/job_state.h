// What the runtime does with Jobs that programs do not: makes them, as init() and spawn() have it in common,
// once they know their world, and speaks for them to the agent.
//
// Not part of the public headers.
#pragma once

#include <chrono>
#include <muster/job.h>
#include <optional>

#include "runtime/comm/world.h"
#include "runtime/control/reports.h"

namespace muster {

// Opens the store (a server on listen_fd, if given), makes the process group and waits until all ranks have
// theirs.
Job join(const World& world, std::optional<std::chrono::milliseconds> timeout, std::optional<int> listen_fd);

// As long as one of the job's copies is there.
Reports& reports_of(const Job& job);

}  // namespace muster
