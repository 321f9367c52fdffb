#include "launcher/core/fleet/container_script.h"

#include <fmt/format.h>

#include "launcher/core/fleet/container_spec.h"

namespace muster::launcher {

namespace {

// Returns a mount as one word of a shell. `source` can contain shell variables. sh expands them in the word.
std::string mount_word(std::string_view type, const std::string& source, const std::string& destination,
                       bool read_only) {
  return fmt::format("--mount=type={},source={},target={}{}", type, source, destination,
                     read_only ? ",readonly" : "");
}

std::vector<std::string> limits(const ContainerOptions& options) {
  std::vector<std::string> words;
  words.push_back(options.shm_bytes > 0
                      ? fmt::format("--shm-size={}", options.shm_bytes)
                      : "--shm-size=$(($(getconf _PHYS_PAGES) / 2 * $(getconf PAGE_SIZE)))");
  if (options.memory_bytes > 0)
    words.insert(words.end(), {fmt::format("--memory={}", options.memory_bytes),
                               fmt::format("--memory-swap={}", options.memory_bytes)});
  if (options.cpus > 0) words.push_back(fmt::format("--cpus={:g}", options.cpus));
  if (!options.gpus.empty())  // a value with commas must be a quoted CSV field
    words.push_back(options.gpus.contains(',') ? fmt::format(R"(--gpus=\"{}\")", options.gpus)
                                               : "--gpus=" + options.gpus);
  if (options.read_only) words.insert(words.end(), {"--read-only", "--tmpfs=/tmp", "--tmpfs=/run"});
  return words;
}

std::string filters_of(const Plan& plan, NodeId node) {
  return fmt::format(R"(--filter "label={}={}" --filter "label={}={}")", kJobLabel, plan.job.job_id,
                     kNodeLabel, node);
}

}  // namespace

std::string start_container_script(const Plan& plan, AgentId agent, const AgentPlace& place,
                                   const std::string& module_in_container,
                                   const std::vector<std::string>& arguments) {
  const ContainerOptions& options = plan.remote.container;
  const std::string name = container_name(plan.job.job_id, agent.node.value());
  const bool delivered = place.path.empty();
  std::vector<std::string> words = {"--rm",
                                    "--interactive",
                                    "--pull=never",
                                    "--name=" + name,
                                    fmt::format("--label={}={}", kJobLabel, plan.job.job_id),
                                    fmt::format("--label={}={}", kNodeLabel, agent.node),
                                    fmt::format("--label={}={}", kIncarnationLabel, agent.incarnation),
                                    "--cap-drop=ALL",
                                    "--security-opt=no-new-privileges",
                                    "--no-healthcheck",
                                    "--log-driver=none",
                                    "--network=" + (options.network.empty() ? "host" : options.network),
                                    "--workdir=/",
                                    "--user=" + (options.user.empty() ? "$(id -u):$(id -g)" : options.user),
                                    fmt::format("--entrypoint={}", kAgentInContainer)};
  for (std::string& word : limits(options)) words.push_back(std::move(word));
  for (const Mount& mount : options.mounts)
    words.push_back(
        mount_word(mount.is_volume() ? "volume" : "bind", mount.source, mount.destination, mount.read_only));
  const std::string agent_file = delivered ? fmt::format("$d/{}", kAgentFile) : place.path;
  const std::string module_file = delivered ? "$d/" + place.module : place.module;
  words.push_back(mount_word("bind", agent_file, kAgentInContainer, true));
  words.push_back(mount_word("bind", module_file, module_in_container, true));
  for (const auto& [option, value] : options.arguments)
    words.push_back(fmt::format("--{}={}", option, value));
  words.push_back(options.image);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::string command = fmt::format("mkdir -p \"{}\" 2>/dev/null; ", plan.job.log_directory);
  if (agent.incarnation > Incarnation(1)) command += fmt::format("docker rm -f {} >/dev/null 2>&1; ", name);
  command += "exec docker run";
  for (const std::string& word : words) command += " \"" + word + '"';
  return where_agent_is(place, command);
}

std::string pull_script(std::string_view image) {
  return fmt::format("exec docker pull -q \"{}\"", image);
}

// The container is found by its labels and not by its name, because a container of another incarnation may
// have the name by now.
std::string kill_container_script(const Plan& plan, AgentId agent) {
  return fmt::format(
      R"sh(docker ps -q {} --filter "label={}={}" | while read -r i; do docker kill $i; done)sh",
      filters_of(plan, agent.node), kIncarnationLabel, agent.incarnation);
}

std::string sweep_container_script(const Plan& plan, AgentId below, bool kill) {
  const std::string condition =
      below.incarnation == Incarnation() ? "true" : fmt::format("test \"$n\" -lt {}", below.incarnation);
  const auto each = [&](std::string_view action) {
    return fmt::format(
        R"sh(docker ps -a {} )sh"
        R"sh(--format "{{{{.Label \"{}\"}}}} {{{{.ID}}}}" | while read -r n i; do {} && {}; done)sh",
        filters_of(plan, below.node), kIncarnationLabel, condition, action);
  };
  return fmt::format("{}{}; docker version >/dev/null 2>&1 && echo swept",
                     kill ? each("docker rm -f $i >/dev/null 2>&1") + "; " : "",
                     each("echo left 1 0 0 container-$i"));
}

}  // namespace muster::launcher
