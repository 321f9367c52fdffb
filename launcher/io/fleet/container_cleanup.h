// Removes what launchers have made in a Docker Engine: containers with their volumes, and networks.
#pragma once

#include <string>
#include <vector>

#include "launcher/io/fleet/docker_engine.h"

namespace muster::launcher {

// All that has these labels, whatever state it is in. How much that was.
awaitable<Expected<std::size_t>> remove_labelled(DockerEngine& engine, std::vector<std::string> labels);
// All that belongs to launchers which have ended on this machine. How much that was.
awaitable<Expected<std::size_t>> remove_abandoned(DockerEngine& engine);

}  // namespace muster::launcher
