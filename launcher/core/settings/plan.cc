#include "launcher/core/settings/plan.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "common/base/text.h"
#include "common/wire/frame.h"
#include "launcher/core/settings/container_options.h"
#include "launcher/core/settings/debug_options.h"
#include "launcher/core/settings/gpu_options.h"
#include "launcher/core/settings/job_json.h"
#include "launcher/core/settings/mpi_options.h"
#include "launcher/core/settings/worker_environment.h"
#include "launcher/core/text/duration.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

constexpr const char* kThreads = "OMP_NUM_THREADS";

// Limits for output of workers that agents have sent and the launcher has not consumed. The first is for all
// agents, the second for one agent. The third is the least that keeps the connection of an agent busy.
constexpr std::int64_t kAllWindowsBytes = std::int64_t{64} << 20;
constexpr std::int64_t kMostWindowBytes = std::int64_t{4} << 20;
constexpr std::int64_t kLeastWindowBytes = std::int64_t{256} << 10;

// The launcher does not know how many GPUs and cores other machines have. So the user must give a number.
Expected<std::int32_t> workers_on_hosts(const Options& options) {
  if (options.workers_per_node.kind == WorkerCount::Kind::kNumber) return options.workers_per_node.number;
  return failure(ErrorCode::kInvalidArgument,
                 "{}: works only on this machine; for other hosts give a number, or slots: --hosts {}:8",
                 options.workers_per_node.source, options.hosts.front().name);
}

Expected<std::int32_t> workers_per_node(const Options& options, const Machine& machine) {
  if (!options.hosts.empty()) return workers_on_hosts(options);
  const std::int32_t nodes = options.nodes;
  const auto share = [nodes](std::int32_t count) { return std::max(1, count / nodes); };
  const bool gpus_wanted =
      options.workers_per_node.kind == WorkerCount::Kind::kGpu ||
      (options.workers_per_node.kind == WorkerCount::Kind::kAuto && options.device == Device::kCuda);
  if (gpus_wanted && machine.gpu_count < nodes) {
    return failure(ErrorCode::kInvalidArgument, "{}: {} found on this machine for {}{}",
                   options.workers_per_node.source, count_of(machine.gpu_count, "GPU"),
                   count_of(nodes, "node"),
                   machine.gpu_note.empty() ? "" : fmt::format(" ({})", machine.gpu_note));
  }
  switch (options.workers_per_node.kind) {
    case WorkerCount::Kind::kNumber: return options.workers_per_node.number;
    case WorkerCount::Kind::kGpu: return share(machine.gpu_count);
    case WorkerCount::Kind::kCpu: return share(machine.core_count);
    case WorkerCount::Kind::kAuto:
      return share(machine.gpu_count >= nodes ? machine.gpu_count : machine.core_count);
  }
  return 1;
}

std::vector<std::string> command_of(const Options& options, const Environment& environment) {
  const std::string& program = options.program.front();
  const bool script = (program.ends_with(".py") && !options.no_python) || options.run_path;
  if (!script && !options.module) return options.program;
  const auto chosen = environment.find("PYTHON_EXEC");
  std::vector<std::string> command{
      chosen == environment.end() || chosen->second.empty() ? "python3" : chosen->second, "-u"};
  if (options.module) command.emplace_back("-m");
  command.insert(command.end(), options.program.begin(), options.program.end());
  return command;
}

// Returns the streams that the terminal does not show, by local rank.
std::vector<std::int32_t> hidden_streams(const Options& options, std::int32_t worker_count) {
  std::vector<std::int32_t> hidden;
  for (std::int32_t rank = 0; rank < worker_count; ++rank) {
    hidden.push_back(streams_of(options.redirects, rank) & ~streams_of(options.tee, rank));
    if (options.shown_local_ranks &&
        std::ranges::find(*options.shown_local_ranks, rank) == options.shown_local_ranks->end())
      hidden.back() = 3;
  }
  return hidden;
}

std::string ranks_text(Rank first, Rank last) {
  if (last.value() == std::numeric_limits<std::int32_t>::max()) return fmt::format("{} and all above", first);
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}
std::string ranks_text(const NodePlan& node) {
  return ranks_text(node.first_rank, Rank(node.first_rank.value() + node.worker_count - 1));
}

std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + as_shell_word(word);
  return text;
}

// Returns the hosts, each with the number of workers that it can have.
std::vector<Host> with_slots(const Options& options, std::int32_t per_node) {
  std::vector<Host> hosts = options.hosts;
  for (Host& host : hosts) {
    if (options.workers_per_node.given || !host.slots) host.slots = per_node;
  }
  return hosts;
}

// Returns the containers of a job on one Docker engine. Each node has one, and so has each spare.
std::vector<Host> containers_of(const Options& options, std::string_view job_id, std::int32_t per_node) {
  std::vector<Host> containers;
  for (std::int32_t node = 0; node < options.nodes + options.spare_nodes; ++node)
    containers.push_back({.name = container_name(job_id, node), .slots = per_node});
  return containers;
}

// Returns the number of threads for each worker. All containers on one machine share its cores, but each of
// them sees all cores. So the cores are divided among the containers.
std::int32_t threads_in_container(const Options& options, const Machine& machine, std::int32_t per_node) {
  const double cpus = options.remote.container.cpus;
  const std::int32_t cores = cpus > 0 ? static_cast<std::int32_t>(cpus) : machine.core_count / options.nodes;
  return std::max(1, cores / per_node);
}

// Settles the mounts and variables of containers. Needs the plan's nodes and directories.
Status settle_containers(Plan& plan, const Options& options, const Machine& machine,
                         const Surroundings& here) {
  if (!plan.remote.in_containers()) return {};
  if (here.working_directory == "/")
    return failure(ErrorCode::kInvalidArgument,
                   "--image: the working directory is /, which cannot be mounted: "
                   "start from another directory");
  plan.remote.container.mounts =
      with_own_directories(plan.remote.container.mounts,
                           {here.working_directory, plan.job.log_directory, options.checkpoint_directory});
  for (const Mount& mount : plan.remote.container.mounts) {
    if (!is_utf8(mount.source + mount.destination))
      return failure(ErrorCode::kInvalidArgument,
                     "--image: {} cannot be mounted: use a directory whose name is UTF-8",
                     one_line(mount.destination));
  }
  if (plan.remote.bootstrap != BootstrapKind::kDocker) return check_for_scripts(plan.remote.container);
  plan.remote.passed.try_emplace(
      kThreads, std::to_string(threads_in_container(options, machine, plan.nodes.front().worker_count)));
  return {};
}

template <class CountOn>
Status check_counts(const Options& options, CountOn count_on) {
  std::int64_t members = 0;
  for (std::int32_t node = 0; node < options.nodes; ++node) {
    members += count_on(node);
    if (members > kMostWorkers && options.hosts.empty()) {
      return failure(
          ErrorCode::kInvalidArgument, "{}: {} with {} workers each exceed the limit of {} workers",
          options.workers_per_node.source, count_of(options.nodes, "node"), count_on(node), kMostWorkers);
    }
  }
  if (members > kMostWorkers) {
    return failure(ErrorCode::kInvalidArgument,
                   "{}: {} with {} workers in all exceed the limit of {} workers",
                   options.workers_per_node.source, count_of(options.nodes, "node"), members, kMostWorkers);
  }
  std::int64_t spares = 0;
  for (std::int32_t spare = 0; spare < options.spare_nodes && spares <= kMostWorkers; ++spare)
    spares += count_on(options.nodes + spare);
  if (spares > kMostWorkers)
    return failure(ErrorCode::kInvalidArgument,
                   "--spare-nodes: {} with {} workers each exceed the limit of {} workers",
                   options.spare_nodes, count_on(options.nodes), kMostWorkers);
  for (std::int32_t node = 0; node < options.nodes + options.spare_nodes; ++node) {
    if (count_on(node) > kMostSlots)
      return failure(ErrorCode::kInvalidArgument, "{}: {} workers on one node exceed the limit of {}",
                     options.workers_per_node.source, count_on(node), kMostSlots);
  }
  return {};
}

std::string_view name_of(BootstrapKind bootstrap) {
  constexpr std::string_view kNames[] = {"local", "ssh", "exec", "docker"};
  return kNames[static_cast<std::size_t>(bootstrap)];
}

std::string_view name_of(Control control) {
  constexpr std::string_view kNames[] = {"auto", "socket", "tcp", "stdio"};
  return kNames[static_cast<std::size_t>(control)];
}

// Returns a text such as "USER@NAME port 2222". It has the user and the port only if they were given.
std::string place_text(const Host& host) {
  const std::string name = host.name.contains(':') ? fmt::format("[{}]", host.name) : host.name;
  return fmt::format("{}{}{}", host.user.empty() ? "" : host.user + "@", name,
                     host.port == 0 ? "" : fmt::format(" port {}", host.port));
}

// Checks that the command fits into one frame. There, each word takes five bytes more than its length.
Status check_command_size(const Plan& plan) {
  const wire::JobSpec& job = plan.job;
  constexpr std::size_t kRoomForTheRest = 256 << 10;
  constexpr std::size_t kMost = wire::kMaxBodyBytes - kRoomForTheRest;
  std::size_t bytes = 0;
  for (const std::string& word : job.command) bytes += word.size() + 5;
  for (const wire::Wrapper& wrapper : job.wrappers) {
    for (const std::string& word : wrapper.words) bytes += word.size() + 5;
  }
  for (const auto* variables : {&job.environment, &job.inherited}) {
    for (const auto& [name, value] : *variables) bytes += name.size() + value.size() + 10;
  }
  if (bytes <= kMost) return {};
  return failure(
      ErrorCode::kInvalidArgument,
      "the command and the variables of --env take {} bytes (allowed: {}): pass long values in a file", bytes,
      kMost);
}

// The width of the column of hosts.
std::size_t host_width(const Plan& plan) {
  constexpr std::size_t kLeast = 13;
  std::size_t width = kLeast;
  for (const Host& host : plan.hosts) width = std::max(width, place_text(host).size() + 2);
  return width;
}

template <class Line>
void add_container_lines(const ContainerOptions& container, Line line) {
  line("image", container.image);
  for (const Mount& mount : container.mounts)
    line("mount", mount.source + (mount.source == mount.destination ? "" : " at " + mount.destination) +
                      (mount.read_only ? ", read only" : ""));
  if (!container.network.empty()) line("network", container.network);
  if (!container.gpus.empty()) line("gpus", container.gpus);
  if (container.memory_bytes > 0)
    line("memory", size_text(static_cast<std::uint64_t>(container.memory_bytes)));
  if (container.cpus > 0) line("cpus", fmt::format("{:g}", container.cpus));
  if (container.shm_bytes > 0) line("shm size", size_text(static_cast<std::uint64_t>(container.shm_bytes)));
  if (!container.user.empty()) line("user", container.user);
  if (container.read_only) line("root", "read only");
  for (const auto& [name, value] : container.arguments) line("argument", fmt::format("{}={}", name, value));
}

template <class Line>
void add_remote_lines(const Plan& plan, Line line) {
  const RemoteOptions& remote = plan.remote;
  std::string how(name_of(remote.bootstrap));
  for (const std::string& word : remote.exec) how += " " + as_shell_word(word);
  line("bootstrap", how);
  line("control", std::string(name_of(plan.control)));
  if (remote.in_containers()) add_container_lines(remote.container, line);
  if (!remote.remote_agent.empty()) line("agent", remote.remote_agent);
  for (const std::string& directory : remote.sync) line("sync", directory);
  if (!remote.interface.empty()) line("interface", remote.interface);
  std::string names;
  for (const auto& [name, value] : remote.passed) names += (names.empty() ? "" : " ") + name;
  if (!names.empty()) line("passed on", names);
}

std::map<std::string, std::string> shown(const std::map<std::string, std::string>& environment) {
  std::map<std::string, std::string> values;
  for (const auto& [name, value] : environment) values.emplace(name, shown_value(name, value));
  return values;
}

nlohmann::ordered_json hosts_json(const Plan& plan) {
  nlohmann::ordered_json hosts = nlohmann::ordered_json::array();
  for (std::size_t node = 0; node < plan.hosts.size(); ++node) {
    const Host& host = plan.hosts[node];
    nlohmann::ordered_json port = nullptr;
    if (host.port != 0) port = host.port;
    nlohmann::ordered_json user = nullptr;
    if (!host.user.empty()) user = host.user;
    hosts.push_back({{"node", node},
                     {"host", host.name},
                     {"user", std::move(user)},
                     {"port", std::move(port)},
                     {"slots", *host.slots},
                     {"spare", node >= plan.nodes.size()}});
  }
  return hosts;
}

void add_container(const ContainerOptions& container, nlohmann::ordered_json& json) {
  using nlohmann::ordered_json;
  json["image"] = container.image;
  ordered_json mounts = ordered_json::array();
  for (const Mount& mount : container.mounts)
    mounts.push_back(
        {{"source", mount.source}, {"destination", mount.destination}, {"read_only", mount.read_only}});
  ordered_json arguments = ordered_json::array();
  for (const auto& [name, value] : container.arguments)
    arguments.push_back(fmt::format("{}={}", name, value));
  json["container"] = {{"mounts", std::move(mounts)},      {"network", container.network},
                       {"gpus", container.gpus},           {"memory_bytes", container.memory_bytes},
                       {"cpus", container.cpus},           {"shm_bytes", container.shm_bytes},
                       {"user", container.user},           {"read_only", container.read_only},
                       {"arguments", std::move(arguments)}};
}

void add_remote(const Plan& plan, nlohmann::ordered_json& json) {
  json["bootstrap"] = name_of(plan.remote.bootstrap);
  if (plan.hosts.empty()) return;
  json["exec"] = plan.remote.exec;
  json["control"] = name_of(plan.control);
  if (plan.remote.in_containers()) add_container(plan.remote.container, json);
  json["hosts"] = hosts_json(plan);
  json["sync"] = plan.remote.sync;
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const auto& [name, value] : plan.remote.passed) names.push_back(name);
  json["passed_environment"] = std::move(names);
}

}  // namespace

bool needs_gpu_count(const Options& options) {
  if (!options.hosts.empty()) return false;
  if (options.remote.in_containers() && options.remote.container.gpus.empty()) return false;
  return options.workers_per_node.kind == WorkerCount::Kind::kGpu || options.share_gpus ||
         options.wait_for_gpus ||
         (options.device != Device::kCpu && options.workers_per_node.kind != WorkerCount::Kind::kCpu);
}

NodeNames Plan::names() const {
  std::map<NodeId, std::string> names;
  for (std::size_t i = 0; i < hosts.size(); ++i) names[NodeId(static_cast<std::int32_t>(i))] = hosts[i].name;
  return NodeNames(std::move(names));
}

std::string Plan::agent_log(NodeId node) const {
  return fmt::format("{}/agent.node{}.log", job.log_directory, node);
}

std::int32_t Plan::room_of(NodeId node) const {
  return hosts.empty() ? nodes.front().worker_count : *hosts.at(static_cast<std::size_t>(node.value())).slots;
}

std::int32_t Plan::world_size() const {
  return nodes.back().first_rank.value() + nodes.back().worker_count;
}

std::int32_t Plan::agent_count() const {
  return static_cast<std::int32_t>(nodes.size()) + spare_nodes;
}

Expected<Plan> make_plan(const Options& options, const Machine& machine, const Surroundings& here,
                         std::string job_id) {
  const auto per_node = workers_per_node(options, machine);
  if (!per_node) return std::unexpected(per_node.error());
  Plan plan;
  const bool docker = options.remote.bootstrap == BootstrapKind::kDocker;
  plan.hosts = docker ? containers_of(options, job_id, *per_node) : with_slots(options, *per_node);
  const auto count_on = [&](std::int32_t node) {
    return plan.hosts.empty() ? *per_node : *plan.hosts.at(static_cast<std::size_t>(node)).slots;
  };
  if (const Status few = check_counts(options, count_on); !few) return std::unexpected(few.error());
  std::int32_t world_size = 0;
  for (std::int32_t node = 0; node < options.nodes; ++node) {
    plan.nodes.push_back({NodeId(node), Rank(world_size), count_on(node)});
    world_size += count_on(node);
  }
  if (const Status known = check_ranks(options, plan); !known) return std::unexpected(known.error());
  if (const Status usable = check_gpu_options(options, machine, here.environment, plan); !usable)
    return std::unexpected(usable.error());
  const std::int32_t most_on_a_node = std::ranges::max(plan.nodes, {}, &NodePlan::worker_count).worker_count;
  const bool local = options.remote.bootstrap == BootstrapKind::kLocal;
  plan.control = local && options.control == Control::kAuto ? Control::kSocket : options.control;
  plan.remote = options.remote;
  plan.min_nodes = options.min_nodes;
  plan.max_nodes = options.max_nodes.value_or(options.nodes);
  plan.spare_nodes = options.spare_nodes;
  plan.recovery = options.recovery;
  plan.take_over = options.take_over;
  wire::JobSpec& job = plan.job;
  job.job_id = std::move(job_id);
  job.log_directory = options.log_directory + "/" + job.job_id;
  job.command = command_of(options, here.environment);
  plan.chose_python = job.command != options.program;
  job.environment = options.added;
  if (options.device == Device::kCpu) job.environment["CUDA_VISIBLE_DEVICES"] = "";
  if (const Status seen = settle_containers(plan, options, machine, here); !seen)
    return std::unexpected(seen.error());
  job.inherited = plan.remote.passed;
  job.interface = plan.remote.interface;
  job.working_directory = here.working_directory;
  job.checkpoint_directory = options.checkpoint_directory;
  job.role = options.role;
  job.run_id = options.run_id;
  job.master_port = options.master_port;
  job.virtual_local_rank = options.virtual_local_rank;
  job.share_gpus = options.share_gpus;
  job.max_restarts = options.max_restarts;
  job.use_gpus = options.device != Device::kCpu && (!docker || !options.remote.container.gpus.empty()) &&
                 (!plan.hosts.empty() || has_gpus(options, machine, world_size));
  job.store_on_agent = options.store_on_agent;
  job.redirects = hidden_streams(options, most_on_a_node);
  job.stdout_filters = options.stdout_filters;
  job.stderr_filters = options.stderr_filters;
  job.limits = options.limits;
  job.hang_limit_given = options.hang_limit_given;
  job.output_window_bytes =
      std::clamp(kAllWindowsBytes / plan.agent_count(), kLeastWindowBytes, kMostWindowBytes);
  job.warm = options.warm;
  if (options.input && options.input->rank != kNoRank) job.input_rank = Rank(options.input->rank);
  job.wrappers = wrappers_of(options);
  job.trace = options.trace;
  job.mpi = options.mpi;
  plan.chosen = chosen_for_nccl(job, local ? here.environment : Environment(), !local);
  if (const Status small = check_command_size(plan); !small) return std::unexpected(small.error());
  return plan;
}

namespace {

// Checks that the nodes are numbered in order. Each node must have the next ranks, as many as it has room
// for.
Status check_nodes(const Plan& plan) {
  std::int32_t first_rank = 0;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const NodePlan& each = plan.nodes[i];
    const NodeId id(static_cast<std::int32_t>(i));
    if (each.node != id || each.first_rank != Rank(first_rank) || each.worker_count != plan.room_of(id))
      return failure(ErrorCode::kInvalidArgument, "nodes: node {} has ranks {}, which belong to other nodes",
                     i, ranks_text(each));
    first_rank += each.worker_count;
  }
  return {};
}

Status check_sizes(const Plan& plan) {
  constexpr auto kWrong = ErrorCode::kInvalidArgument;
  if (plan.nodes.empty()) return failure(kWrong, "nodes: the list is empty");
  const auto node_count = static_cast<std::int64_t>(plan.nodes.size());
  if (plan.spare_nodes < 0) return failure(kWrong, "spare_nodes: {} is negative", plan.spare_nodes);
  const std::int64_t agent_count = node_count + plan.spare_nodes;
  if (!plan.hosts.empty() && static_cast<std::int64_t>(plan.hosts.size()) != agent_count)
    return failure(kWrong, "slots: given for {} hosts, but there are {} nodes", plan.hosts.size(),
                   agent_count);
  if (plan.min_nodes && (*plan.min_nodes < 1 || *plan.min_nodes > node_count))
    return failure(kWrong, "min_nodes: {} is not between 1 and {}", *plan.min_nodes, node_count);
  const bool grows = plan.most_nodes() > node_count;
  if (plan.max_nodes > kMostWorkers || (grows && (plan.spare_nodes > 0 || !plan.min_nodes)))
    return failure(kWrong, "max_nodes: {} nodes cannot become {}", node_count, plan.max_nodes);
  const auto few = std::ranges::find_if(plan.hosts, [](const Host& host) { return *host.slots < 1; });
  if (few != plan.hosts.end() || plan.nodes.front().worker_count < 1)
    return failure(kWrong, "nodes: a node has no room for a worker");
  Options options;
  options.nodes = static_cast<std::int32_t>(node_count);
  options.spare_nodes = plan.spare_nodes;
  options.hosts = plan.hosts;
  if (Status most = check_counts(options, [&](std::int32_t node) { return plan.room_of(NodeId(node)); });
      !most)
    return most;
  return check_nodes(plan);
}

Status check_limits(const Plan& plan) {
  const auto check = [](std::string_view name, Duration value, bool may_be_zero) -> Status {
    if (is_duration(value) && (may_be_zero || value > Duration::zero())) return {};
    return failure(ErrorCode::kInvalidArgument, "{}: {} ns is not a duration", name, to_ns(value));
  };
  for (const auto& [name, field, may_be_zero] : wire::kTimeLimits) {
    if (Status is_limit = check(name, plan.job.limits.*field, may_be_zero); !is_limit) return is_limit;
  }
  const RecoveryOptions& recovery = plan.recovery;
  const std::tuple<std::string_view, Duration, bool> times[] = {
      {"restart_window", recovery.restart_window, false},
      {"restart_delay", recovery.restart_delay, true},
      {"node_exclusion", recovery.node_exclusion, true},
      {"preemption_grace", recovery.preemption_grace, true},
      {"time_limit", recovery.time_limit.value_or(Duration(1)), false},
      {"start_timeout", recovery.start_timeout, true}};
  for (const auto& [name, value, may_be_zero] : times) {
    if (Status is_time = check(name, value, may_be_zero); !is_time) return is_time;
  }
  if (plan.job.max_restarts >= 0 && recovery.no_progress_limit >= 0) return {};
  return failure(ErrorCode::kInvalidArgument, "max_restarts, no_progress_limit: {}, {}: a value is negative",
                 plan.job.max_restarts, recovery.no_progress_limit);
}

}  // namespace

Status check_plan(const Plan& plan) {
  if (Status sizes = check_sizes(plan); !sizes) return sizes;
  return check_limits(plan);
}

std::optional<std::string> core_notice(const Plan& plan, const Machine& machine,
                                       const Environment& inherited) {
  const std::int32_t cores = std::max(1, machine.core_count);
  if (!plan.hosts.empty() || plan.world_size() < 2) return std::nullopt;
  if (plan.world_size() > 4 * cores)
    return fmt::format("{} workers share {}: start and steps will be slow", plan.world_size(),
                       count_of(cores, "core"));
  if (inherited.contains(kThreads) || plan.job.environment.contains(kThreads)) return std::nullopt;
  return fmt::format("OMP_NUM_THREADS is {} for each worker ({} cores, {} workers); set it to change that",
                     std::max(1, cores / plan.world_size()), machine.core_count, plan.world_size());
}

std::string plan_as_text(const Plan& plan) {
  const wire::JobSpec& job = plan.job;
  std::string text =
      fmt::format("{:<13}{}\n{:<13}{}\n", "job", job.job_id, "command", command_text(job.command));
  const auto line = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{:<13}{}\n", name, value);
  };
  for (const wire::Wrapper& each : job.wrappers)
    line("wrapper",
         fmt::format("{} before rank {}", command_text(each.words), ranks_text(each.first, each.last)));
  if (job.input_rank) line("stdin", fmt::format("goes to rank {}", *job.input_rank));
  if (const std::string mpi = mpi_text(plan); !mpi.empty()) line("MPI", mpi);
  line("directory", job.working_directory);
  line("logs", job.log_directory);
  line("checkpoints", job.checkpoint_directory.empty() ? "none" : job.checkpoint_directory);
  line("restarts",
       fmt::format("at most {} within {:g} s", job.max_restarts, in_seconds(plan.recovery.restart_window)));
  if (plan.min_nodes)
    line("nodes", fmt::format("{}, down to {} when nodes are lost{}", plan.nodes.size(), *plan.min_nodes,
                              plan.most_nodes() == static_cast<std::int32_t>(plan.nodes.size())
                                  ? ""
                                  : fmt::format("; up to {} when hosts are added", plan.most_nodes())));
  if (plan.recovery.time_limit)
    line("time limit", fmt::format("{:g} s", in_seconds(*plan.recovery.time_limit)));
  line("GPUs", !job.use_gpus    ? "workers get none"
               : job.share_gpus ? "workers share them, if there are fewer"
                                : "each worker gets one");
  for (const auto& [name, value] : job.environment)
    line("environment", fmt::format("{}={}", name, shown_value(name, value)));
  if (job.use_gpus) {
    for (const auto& [name, value] : plan.chosen) line("NCCL", fmt::format("{}={}", name, value));
  }
  if (!plan.hosts.empty()) add_remote_lines(plan, line);
  const auto host_of = [&plan](std::size_t node) {
    return plan.hosts.empty() ? "" : fmt::format("{:<{}}", place_text(plan.hosts[node]), host_width(plan));
  };
  text += fmt::format("\n{:<13}{:<{}}{:<13}{}\n", "node", plan.hosts.empty() ? "" : "host",
                      plan.hosts.empty() ? 0 : host_width(plan), "workers", "ranks");
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const NodePlan& node = plan.nodes[i];
    text += fmt::format("{:<13}{}{:<13}{}\n", fmt::format("node{}", node.node), host_of(i), node.worker_count,
                        ranks_text(node));
  }
  for (std::size_t node = plan.nodes.size(); node < static_cast<std::size_t>(plan.agent_count()); ++node) {
    text += fmt::format("{:<13}{}{:<13}{}\n", fmt::format("node{}", node), host_of(node),
                        plan.hosts.empty() ? "-" : fmt::format("- ({})", *plan.hosts[node].slots),
                        "spare: takes the ranks of a lost node");
  }
  return text;
}

std::string plan_as_json(const Plan& plan) {
  nlohmann::ordered_json time_limit = nullptr;
  if (plan.recovery.time_limit) time_limit = in_seconds(*plan.recovery.time_limit);
  nlohmann::ordered_json json = {{"job_id", plan.job.job_id},
                                 {"command", plan.job.command},
                                 {"environment", shown(plan.job.environment)},
                                 {"chosen_environment", plan.chosen},
                                 {"working_directory", plan.job.working_directory},
                                 {"log_directory", plan.job.log_directory},
                                 {"checkpoint_directory", plan.job.checkpoint_directory},
                                 {"max_restarts", plan.job.max_restarts},
                                 {"time_limit_seconds", std::move(time_limit)},
                                 {"min_nodes", plan.min_nodes.value_or(plan.nodes.size())},
                                 {"max_nodes", plan.most_nodes()},
                                 {"spare_nodes", plan.spare_nodes},
                                 {"world_size", plan.world_size()},
                                 {"use_gpus", plan.job.use_gpus},
                                 {"nodes", nodes_json(plan.nodes, plan.names())}};
  nlohmann::ordered_json wrappers = nlohmann::ordered_json::array();
  for (const wire::Wrapper& each : plan.job.wrappers)
    wrappers.push_back(
        {{"first_rank", each.first.value()}, {"last_rank", each.last.value()}, {"command", each.words}});
  json["wrappers"] = std::move(wrappers);
  json["stdin_rank"] = nullptr;
  if (plan.job.input_rank) json["stdin_rank"] = plan.job.input_rank->value();
  json["mpi"] = name_of(plan.job.mpi);
  add_remote(plan, json);
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace muster::launcher
