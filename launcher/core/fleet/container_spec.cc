#include "launcher/core/fleet/container_spec.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

using Json = nlohmann::json;

// `text` has the form NAME=SOFT[:HARD]. The caller has checked this.
Json ulimit(std::string_view text) {
  const std::size_t equals = text.find('=');
  const auto limits = split(text.substr(std::min(equals + 1, text.size())), ':');
  const std::int64_t soft = parse_number<std::int64_t>(limits.front()).value_or(0);
  const std::int64_t hard = parse_number<std::int64_t>(limits.back()).value_or(soft);
  return {{"Name", text.substr(0, equals)}, {"Soft", soft}, {"Hard", hard}};
}

// Reads the value of --device, which has the form HERE[:THERE[:PERMISSIONS]] or HERE:PERMISSIONS.
Json device(std::string_view text) {
  const auto parts = split(text, ':');
  const bool has_place = parts.size() > 1 && parts[1].starts_with('/');
  const bool has_permissions = parts.size() > 1 && !parts.back().starts_with('/');
  return {{"PathOnHost", parts[0]},
          {"PathInContainer", has_place ? parts[1] : parts[0]},
          {"CgroupPermissions", has_permissions ? parts.back() : "rwm"}};
}

void set_pair(Json& map, std::string_view text, char separator) {
  const std::size_t at = text.find(separator);
  map[std::string(text.substr(0, at))] = at == std::string_view::npos ? "" : text.substr(at + 1);
}

// Puts the argument into the body of the request, in the place where `docker run` would put it.
void add_argument(Json& body, const ContainerArgument& argument) {
  constexpr std::pair<std::string_view, const char*> kLists[] = {{"add-host", "ExtraHosts"},
                                                                 {"cap-add", "CapAdd"},
                                                                 {"dns", "Dns"},
                                                                 {"group-add", "GroupAdd"},
                                                                 {"security-opt", "SecurityOpt"}};
  Json& host = body["HostConfig"];
  const auto& [name, value] = argument;
  for (const auto& [option, field] : kLists) {
    if (name == option) host[field].push_back(value);
  }
  if (name == "cpuset-cpus") host["CpusetCpus"] = value;
  if (name == "ipc") host["IpcMode"] = value;
  if (name == "runtime") host["Runtime"] = value;
  if (name == "device") host["Devices"].push_back(device(value));
  if (name == "ulimit") host["Ulimits"].push_back(ulimit(value));
  if (name == "tmpfs") set_pair(host["Tmpfs"], value, ':');
  if (name == "sysctl") set_pair(host["Sysctls"], value, '=');
  if (name == "label") set_pair(body["Labels"], value, '=');
}

Json gpu_request(const std::string& gpus, NodeId node) {
  constexpr std::string_view kDevice = "device=";
  Json request = {{"Driver", ""}, {"Capabilities", {{"gpu"}}}};
  if (gpus == "all") {
    request["Count"] = -1;
  } else if (gpus.starts_with(kDevice)) {
    request["DeviceIDs"] = split(std::string_view(gpus).substr(kDevice.size()), ',');
  } else {
    const std::int32_t count = parse_number<std::int32_t>(gpus).value_or(1);
    Json ids = Json::array();
    for (std::int32_t i = 0; i < count; ++i) ids.push_back(std::to_string(node.value() * count + i));
    request["DeviceIDs"] = std::move(ids);
  }
  return Json::array({std::move(request)});
}

Json mount_json(const Mount& mount) {
  return {{"Type", mount.is_volume() ? "volume" : "bind"},
          {"Source", mount.source},
          {"Target", mount.destination},
          {"ReadOnly", mount.read_only}};
}

Json labels(const Plan& plan, const std::string& launcher) {
  return {{kJobLabel, plan.job.job_id}, {kLauncherLabel, launcher}};
}

std::string hostname_of(NodeId node) {
  return fmt::format("node{}", node);
}

// If a message of the engine contains one of `parts`, `text` is the advice for it.
struct Advice {
  std::vector<std::string_view> parts;
  const char* text;
  bool lasting = true;  // a retry would be refused, too, until somebody follows the advice
};

const Advice* advice_for(std::string_view message) {
  static const std::vector<Advice> kAll = {
      {{"could not select device driver"},
       "the engine has no GPU driver: install the NVIDIA Container Toolkit there, or leave out --gpus"},
      {{"RLIMIT", "rlimit"},
       "the engine may not set such a limit: leave out the ulimit, or raise the engine's own limit"},
      {{"could not find an available", "all predefined address pools have been fully subnetted"},
       "remove unused networks with `docker network prune`, or give --network NAME",
       false},
      {{"is already in use by container"}, "remove or rename that container", false},
      {{"bind source path does not exist"}, "create it, or mount another directory"},
      {{"no such image", "No such image", "manifest unknown", "not found: manifest"},
       "check the image's name and tag"},
      {{"unauthorized", "authentication required", "no basic auth credentials", "access denied",
        "requested access"},
       "log in to the registry: `docker login`"},
      {{"permission denied while trying to connect to the"}, "join the group docker there"},
      {{"Cannot connect to the Docker daemon"}, "start it there: `systemctl start docker`", false},
      {{"docker: not found", "docker: command not found"}, "install Docker there"},
      {{"Range of CPUs"}, "give --cpus at most the machine's number of cores"},
      {{"no such host", "dial tcp", "i/o timeout"},
       "check the registry's name and the network, or load the image with `docker load`",
       false},
      {{"unknown runtime", "Unknown runtime"}, "check the runtime's name"},
      {{"exec /muster/bin/muster-agent: no such file", "exec user process caused: no such file"},
       "the image has no glibc: use an image based on Debian, Ubuntu or similar, not Alpine"},
      {{"exec format error"}, "the image is for another processor: use an image for this machine's"},
      {{"unable to find user", "unable to find group"}, "give --container-user UID:GID"},
      {{"GLIBC_"}, "the image's C library is older than Muster needs: use a newer image"},
      {{"GLIBCXX_"}, "the image's libstdc++ is older than Muster needs: use a newer image"}};
  const auto found = std::ranges::find_if(kAll, [message](const Advice& advice) {
    return std::ranges::any_of(advice.parts,
                               [message](std::string_view part) { return message.contains(part); });
  });
  return found == kAll.end() ? nullptr : &*found;
}

}  // namespace

const std::string& container_name(const Plan& plan, NodeId node) {
  return plan.hosts.at(static_cast<std::size_t>(node.value())).name;
}

std::string network_name(const Plan& plan) {
  return "muster-" + plan.job.job_id;
}

std::string network_of(const Plan& plan, const ContainerSurroundings& here) {
  const std::string& given = plan.remote.container.network;
  if (!given.empty()) return given;
  return plan.hosts.size() == 1 && here.has_bridge ? "bridge" : network_name(plan);
}

std::string container_body(const Plan& plan, AgentId agent, const std::vector<std::string>& arguments,
                           const ContainerSurroundings& here) {
  const ContainerOptions& options = plan.remote.container;
  const NodeId node = agent.node;
  const std::string network = network_of(plan, here);
  Json mounts = Json::array();
  for (const auto* list : {&options.mounts, &here.programs}) {
    for (const Mount& mount : *list) mounts.push_back(mount_json(mount));
  }
  std::vector<std::string> command{kAgentInContainer};
  command.insert(command.end(), arguments.begin(), arguments.end());
  // The agent sends frames over its stdout at first. So the engine must not log it.
  Json host = {{"AutoRemove", true},
               {"LogConfig", {{"Type", "none"}}},
               {"NetworkMode", network},
               {"Mounts", std::move(mounts)},
               {"CapDrop", {"ALL"}},
               {"SecurityOpt", {"no-new-privileges"}},
               {"ShmSize", options.shm_bytes > 0 ? options.shm_bytes : here.memory_bytes / 2},
               {"ReadonlyRootfs", options.read_only}};
  if (options.read_only) host["Tmpfs"] = {{"/tmp", ""}, {"/run", ""}};
  if (options.memory_bytes > 0) {
    host["Memory"] = options.memory_bytes;
    host["MemorySwap"] = options.memory_bytes;
  }
  if (options.cpus > 0) host["NanoCpus"] = std::llround(options.cpus * 1e9);
  if (!options.gpus.empty()) host["DeviceRequests"] = gpu_request(options.gpus, node);
  Json body = {{"Image", options.image},
               {"User", options.user.empty() ? here.user : options.user},
               {"Entrypoint", Json::array()},
               {"Cmd", command},
               {"WorkingDir", "/"},
               {"Labels", labels(plan, here.launcher)},
               {"AttachStdin", true},
               {"AttachStdout", true},
               {"AttachStderr", true},
               {"OpenStdin", true},
               {"StdinOnce", true},
               {"Tty", false},
               {"Healthcheck", {{"Test", {"NONE"}}}},
               {"HostConfig", std::move(host)}};
  body["Labels"][kNodeLabel] = std::to_string(node.value());
  body["Labels"][kIncarnationLabel] = std::to_string(agent.incarnation.value());
  const bool own_namespace = network != "host" && network != "none";
  if (own_namespace) body["Hostname"] = hostname_of(node);
  if (network == network_name(plan))
    body["NetworkingConfig"]["EndpointsConfig"][network] = {{"Aliases", {hostname_of(node)}}};
  for (const ContainerArgument& argument : options.arguments) add_argument(body, argument);
  if (std::ranges::find(arguments, "--stays") != arguments.end()) {
    body["Labels"].erase(kJobLabel);
    body["Labels"][kStaysLabel] = plan.job.job_id;
  }
  return body.dump();
}

// Returns the whole request for the container, but without the labels, because these name the job and the
// node. Returns "" if the container is in a network that the job creates.
std::string container_place(const Plan& plan, NodeId node, const ContainerSurroundings& here) {
  if (network_of(plan, here) == network_name(plan)) return "";
  Json body = Json::parse(container_body(plan, {node, Incarnation(1)}, {}, here));
  body.erase("Labels");
  return body.dump();
}

std::string network_body(const Plan& plan, const std::string& launcher) {
  return Json({{"Name", network_name(plan)},
               {"CheckDuplicate", true},
               {"Driver", "bridge"},
               {"Labels", labels(plan, launcher)}})
      .dump();
}

std::string launcher_label(const ProcessIdentity& launcher) {
  return fmt::format("{} {} {} {} {}", launcher.boot_id, launcher.pid_namespace, launcher.pid,
                     launcher.start_ticks, launcher.host);
}

std::optional<ProcessIdentity> parse_launcher_label(std::string_view label) {
  const auto words = split(label, ' ');
  if (words.size() != 5) return std::nullopt;
  const auto pid = parse_number<std::int64_t>(words[2]);
  const auto ticks = parse_number<std::int64_t>(words[3]);
  if (!pid || !ticks) return std::nullopt;
  return ProcessIdentity{.host = std::string(words[4]),
                         .user = "",
                         .boot_id = std::string(words[0]),
                         .pid_namespace = std::string(words[1]),
                         .pid = *pid,
                         .start_ticks = *ticks};
}

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char letter : text) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') || std::string_view("-._~").contains(letter);
    if (plain)
      encoded += letter;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(letter));
  }
  return encoded;
}

std::string label_filter(const std::vector<std::string>& labels) {
  return percent_encoded(Json({{"label", labels}}).dump());
}

std::string container_advice(std::string_view message) {
  const Advice* const advice = advice_for(message);
  return advice == nullptr ? "" : advice->text;
}

bool is_lasting_refusal(std::string_view message) {
  const Advice* const advice = advice_for(message);
  return advice != nullptr && advice->lasting;
}

std::string with_container_advice(const std::string& message) {
  const std::string todo = container_advice(message);
  return todo.empty() ? message : fmt::format("{} ({})", message, todo);
}

}  // namespace muster::launcher
