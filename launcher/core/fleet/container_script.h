// What is asked of a host's shell where agents run in containers of the host's own engine: scripts as in
// host_script.h, with `docker`. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/fleet/host_script.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

// `module_in_container`: where the agent looks for its TLS module. The agent's own files are checked as by
// start_script(), and are seen in the container.
std::string start_container_script(const Plan& plan, AgentId agent, const AgentPlace& place,
                                   const std::string& module_in_container,
                                   const std::vector<std::string>& arguments);
std::string pull_script(std::string_view image);
// Kills the container of this incarnation, if it runs; one of the same name with another incarnation stays.
std::string kill_container_script(const Plan& plan, AgentId agent);
// Answers as `agent --sweep` does. Containers of `below`'s incarnation and newer ones are none of those; of
// none where it is 0.
std::string sweep_container_script(const Plan& plan, AgentId below, bool kill);

}  // namespace muster::launcher
