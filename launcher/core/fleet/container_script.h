// Scripts for the shell of a host, as in host_script.h. These are for agents in containers. The containers
// run on the host's own Docker engine. The scripts call `docker`. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/fleet/host_script.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

// Returns a script that checks the agent's files as start_script() does, and mounts them into the container.
// `module_in_container` is the path at which the agent looks for its TLS module.
std::string start_container_script(const Plan& plan, AgentId agent, const AgentPlace& place,
                                   const std::string& module_in_container,
                                   const std::vector<std::string>& arguments);
std::string pull_script(std::string_view image);
// Kills the container of this incarnation if it runs. A container of another incarnation may have the same
// name. It is not killed.
std::string kill_container_script(const Plan& plan, AgentId agent);
// Returns a script that prints the same as `agent --sweep`. A container of the node is a leftover if its
// incarnation is below `below.incarnation`. If `below.incarnation` is 0, each container of the node is one.
std::string sweep_container_script(const Plan& plan, AgentId below, bool kill);

}  // namespace muster::launcher
