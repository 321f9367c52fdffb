// What the Docker Engine is asked to make for a job's nodes: bodies of its API (1.41), and the names and
// labels by which all that belongs to a job is found again. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/process.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

inline constexpr const char* kJobLabel = "muster.job";
inline constexpr const char* kNodeLabel = "muster.node";
inline constexpr const char* kIncarnationLabel = "muster.incarnation";
inline constexpr const char* kLauncherLabel = "muster.launcher";
inline constexpr const char* kAgentInContainer = "/muster/bin/agent";

// What this machine adds to what the plan says.
struct ContainerSurroundings {
  std::string user;               // UID:GID of the caller
  std::vector<Mount> programs;    // agent, its TLS module, launcher
  std::int64_t memory_bytes = 0;  // of this machine
  std::string launcher;           // launcher_label()
  bool has_bridge = false;        // the engine has the network that Docker makes for containers of no other
};

// "muster-JOB-K", as the plan calls the node's host.
const std::string& container_name(const Plan& plan, NodeId node);
// "muster-JOB", of a network that the job makes.
std::string network_name(const Plan& plan);
// The network that the job's containers are in: the one of --network; "bridge" for a single container, which
// has nobody to talk to; else the job's own.
std::string network_of(const Plan& plan, const ContainerSurroundings& here);

// Body of POST /containers/create. `arguments`: the agent's.
std::string container_body(const Plan& plan, AgentId agent, const std::vector<std::string>& arguments,
                           const ContainerSurroundings& here);
// Body of POST /networks/create.
std::string network_body(const Plan& plan, const std::string& launcher);

// The value of kLauncherLabel: who the launcher is, so that another knows whether it is still there.
std::string launcher_label(const ProcessIdentity& launcher);
std::optional<ProcessIdentity> parse_launcher_label(std::string_view label);

// The value of a request's `filters`, percent-encoded: what has these labels, each NAME or NAME=VALUE.
std::string label_filter(const std::vector<std::string>& labels);
std::string percent_encoded(std::string_view text);

// What to do about a message of the engine's, or "".
std::string container_advice(std::string_view message);
// Whether the same would be refused again, on a host of which nobody takes care meanwhile.
bool is_lasting_refusal(std::string_view message);
// The message, with the advice behind it.
std::string with_container_advice(const std::string& message);

}  // namespace muster::launcher
