// Removes what launchers have created in a Docker Engine: containers with their volumes, and networks.
#pragma once

#include <string>
#include <vector>

#include "launcher/io/fleet/docker_engine.h"

namespace muster::launcher {

// Removes a container in any state. Returns true if the container is gone. `container`: its id or name.
awaitable<bool> remove_container(DockerEngine& engine, std::string container, TimePoint deadline);
// Removes all containers and networks that have these labels; returns their number. kUnavailable: some are
// left, or the engine did not answer.
awaitable<Expected<std::size_t>> remove_labelled(DockerEngine& engine, std::vector<std::string> labels,
                                                 TimePoint deadline);
// The running containers with these labels, as the engine lists them. Error: the engine did not answer.
awaitable<Expected<std::vector<nlohmann::json>>> running_containers(DockerEngine& engine,
                                                                    std::vector<std::string> labels,
                                                                    TimePoint deadline);
// Waits until no running container has the label, or until the deadline.
awaitable<void> wait_until_ended(DockerEngine& engine, std::string label, TimePoint deadline);

struct Abandoned {
  std::size_t removed = 0;        // containers and networks
  std::vector<std::string> left;  // jobs with something that could not be removed
};
// Removes the containers and networks of launchers of this machine that have ended.
awaitable<Expected<Abandoned>> remove_abandoned(DockerEngine& engine);

}  // namespace muster::launcher
