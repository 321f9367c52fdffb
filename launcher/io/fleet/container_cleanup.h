// Removes all that launchers have created in a Docker Engine. These are containers with their volumes, and
// networks.
#pragma once

#include <string>
#include <vector>

#include "launcher/io/fleet/docker_engine.h"

namespace muster::launcher {

// Removes a container in any state. `container` is its id or its name. Returns true if the container is gone.
awaitable<bool> remove_container(DockerEngine& engine, std::string container, TimePoint deadline);
// Removes all containers and networks that have these labels, and returns their number. Returns kUnavailable
// if some are left, or if the engine did not answer.
awaitable<Expected<std::size_t>> remove_labelled(DockerEngine& engine, std::vector<std::string> labels,
                                                 TimePoint deadline);
// Returns the running containers with these labels, as the engine lists them. It is an error if the engine
// does not answer.
awaitable<Expected<std::vector<nlohmann::json>>> running_containers(DockerEngine& engine,
                                                                    std::vector<std::string> labels,
                                                                    TimePoint deadline);
// Waits until no running container has the label any more, but not longer than until the deadline.
awaitable<void> wait_until_ended(DockerEngine& engine, std::string label, TimePoint deadline);

struct Abandoned {
  std::size_t removed = 0;        // containers and networks
  std::vector<std::string> left;  // jobs with something that could not be removed
};
// Removes containers and networks of launchers that ran on this machine and have ended.
awaitable<Expected<Abandoned>> remove_abandoned(DockerEngine& engine);

}  // namespace muster::launcher
