// Removes what launchers have made in a Docker Engine: containers with their volumes, and networks.
#pragma once

#include <string>
#include <vector>

#include "launcher/io/fleet/docker_engine.h"

namespace muster::launcher {

// Whether it is gone, whatever state it was in. `container`: its id or name.
awaitable<bool> remove_container(DockerEngine& engine, std::string container, TimePoint deadline);
// All that has these labels. How much that was. kUnavailable: something is left, or nobody knows.
awaitable<Expected<std::size_t>> remove_labelled(DockerEngine& engine, std::vector<std::string> labels,
                                                 TimePoint deadline);
// As the engine lists those containers with these labels that run. Error: it does not say.
awaitable<Expected<std::vector<nlohmann::json>>> running_containers(DockerEngine& engine,
                                                                    std::vector<std::string> labels,
                                                                    TimePoint deadline);
// Until no container that runs has the label, or the deadline is over.
awaitable<void> wait_until_ended(DockerEngine& engine, std::string label, TimePoint deadline);

struct Abandoned {
  std::size_t removed = 0;        // containers and networks
  std::vector<std::string> left;  // the jobs of which something cannot be removed
};
// Removes all that belongs to launchers which have ended on this machine.
awaitable<Expected<Abandoned>> remove_abandoned(DockerEngine& engine);

}  // namespace muster::launcher
