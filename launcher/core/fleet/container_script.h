// Scripts for a host's shell, as in host_script.h, for agents that run in containers of the host's own Docker
// engine. The scripts call `docker`. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/fleet/host_script.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

// The script checks the agent's files as start_script() does, and mounts them into the container.
// `module_in_container`: the path where the agent looks for its TLS module.
std::string start_container_script(const Plan& plan, AgentId agent, const AgentPlace& place,
                                   const std::string& module_in_container,
                                   const std::vector<std::string>& arguments);
std::string pull_script(std::string_view image);
// Kills the container of this incarnation, if it runs; leaves other incarnations with the same name alone.
std::string kill_container_script(const Plan& plan, AgentId agent);
// The script prints the same as `agent --sweep`. It counts a container of the node as a leftover if the
// container's incarnation is below `below.incarnation`, or if `below.incarnation` is 0.
std::string sweep_container_script(const Plan& plan, AgentId below, bool kill);

}  // namespace muster::launcher
