// Makes Jobs: what init() and spawn() have in common, once they know their world.
//
// Not part of the public headers.
#pragma once

#include <chrono>
#include <muster/job.h>
#include <optional>

#include "runtime/comm/world.h"

namespace muster {

// Opens the store (a server on listen_fd, if given), makes the process group and waits until all ranks have
// theirs.
Job join(const World& world, std::optional<std::chrono::milliseconds> timeout, std::optional<int> listen_fd);

}  // namespace muster
