// Requests to the Docker Engine for a job's nodes: bodies of its API (1.41), and the names and labels of a
// job's containers and networks. Pure.
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
inline constexpr const char* kStaysLabel =
    "muster.first_job";  // in place of kJobLabel: it serves later jobs too
inline constexpr const char* kNodeLabel = "muster.node";
inline constexpr const char* kIncarnationLabel = "muster.incarnation";
inline constexpr const char* kLauncherLabel = "muster.launcher";
inline constexpr const char* kAgentInContainer = "/muster/bin/muster-agent";

// Facts about this machine that the plan does not contain.
struct ContainerSurroundings {
  std::string user;               // UID:GID of the caller
  std::vector<Mount> programs;    // agent, its TLS module, launcher
  std::int64_t memory_bytes = 0;  // of this machine
  std::string launcher;           // launcher_label()
  bool has_bridge = false;        // the engine has Docker's default network
};

// Returns a name such as "muster-JOB-K". In the plan, this is the name of the node's host.
const std::string& container_name(const Plan& plan, NodeId node);
// Returns the name "muster-JOB". This is the network that the job creates.
std::string network_name(const Plan& plan);
// Returns the network of the job's containers:
// - If --network is given, it is that network.
// - If the job has only one container, and the engine has the network "bridge", it is "bridge".
// - Otherwise it is network_name().
std::string network_of(const Plan& plan, const ContainerSurroundings& here);

// Returns the body of POST /containers/create. `arguments` are those of the agent. If --stays is among them,
// the container gets the label kStaysLabel, and not kJobLabel.
std::string container_body(const Plan& plan, AgentId agent, const std::vector<std::string>& arguments,
                           const ContainerSurroundings& here);
// Returns the settings of the container as one text. If two nodes of different jobs have the same text, the
// container of one can also serve the other. Returns "" if the container is in a network that the job has
// made. Such a container serves only this job.
std::string container_place(const Plan& plan, NodeId node, const ContainerSurroundings& here);
// Body of POST /networks/create.
std::string network_body(const Plan& plan, const std::string& launcher);

// Returns the value of kLauncherLabel. From this value, another launcher can tell whether `launcher` still
// runs.
std::string launcher_label(const ProcessIdentity& launcher);
std::optional<ProcessIdentity> parse_launcher_label(std::string_view label);

// Returns the percent-encoded value of a request's `filters` that selects objects with these labels. Each
// label is NAME or NAME=VALUE.
std::string label_filter(const std::vector<std::string>& labels);
std::string percent_encoded(std::string_view text);

// Advice for a message of the engine, or "".
std::string container_advice(std::string_view message);
// Returns whether the message shows a lasting problem. If so, the engine will refuse each retry until a
// person solves it.
bool is_lasting_refusal(std::string_view message);
// Returns the message, followed by the advice if there is any.
std::string with_container_advice(const std::string& message);

}  // namespace muster::launcher
