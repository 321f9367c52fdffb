#include "launcher/core/settings/several_launchers.h"

#include <algorithm>

namespace muster::launcher {

namespace {

// Returns whether the two are names of the same host. One of them can lack the domain.
bool is_name_of(std::string_view host, std::string_view hostname) {
  const auto begins = [](std::string_view full, std::string_view name) {
    return full.starts_with(name) && full.substr(name.size()).starts_with('.');
  };
  return host == hostname || begins(host, hostname) || begins(hostname, host);
}

// Returns the host of an endpoint: "10.0.0.1" of "10.0.0.1:29400", and "::1" of "[::1]:29400".
std::string_view host_in(std::string_view endpoint) {
  if (endpoint.starts_with('[')) return endpoint.substr(1, endpoint.find(']') - 1);
  return std::ranges::count(endpoint, ':') <= 1 ? endpoint.substr(0, endpoint.find(':')) : endpoint;
}

bool is_this_machine(std::string_view endpoint, const Surroundings& here) {
  const std::string_view host = host_in(endpoint);
  return host.empty() || host == "localhost" || host.starts_with("127.") || host == "::1" ||
         host == "0.0.0.0" || is_name_of(host, here.hostname);
}

std::string count_text(const WorkerCount& count) {
  switch (count.kind) {
    case WorkerCount::Kind::kNumber: return std::to_string(count.number);
    case WorkerCount::Kind::kAuto: return "auto";
    case WorkerCount::Kind::kGpu: return "gpu";
    case WorkerCount::Kind::kCpu: return "cpu";
  }
  return "auto";
}

// Returns whether --standalone is given. torchrun then ignores all settings about other machines.
bool is_standalone(const Settings& settings) {
  const auto alone = settings.find("standalone");
  return alone != settings.end() && alone->second.values.back() == "1";
}

std::string whole_job(const Options& options) {
  return fmt::format(
      "one launch starts all nodes: run `launch --nodes {} --gpus-per-node {} {}` once, "
      "with --hosts if the nodes are other machines",
      nodes_text(options), count_text(options.workers_per_node), options.program.front());
}

}  // namespace

Status refuse_several_launchers(const Settings& given, const Options& options, const Surroundings& here) {
  const Settings settings = is_standalone(given) ? Settings() : given;
  if (const auto rank = settings.find("node-rank"); rank != settings.end()) {
    // A job of one node has only the node rank 0. In a job of several nodes, a node rank means that each node
    // has a launcher of its own.
    if (rank->second.values.back() != "0" || options.nodes > 1) {
      return failure(ErrorCode::kInvalidArgument,
                     "{}: {} means that this is one of several launchers, but {}", rank->second.source,
                     rank->second.values.back(), whole_job(options));
    }
  }
  for (const char* name : {"master-addr", "rdzv-endpoint"}) {
    const auto place = settings.find(name);
    if (!options.hosts.empty())
      break;  // the launcher itself detects on which addresses the nodes reach each other
    // Also checks a job of one node. If a script was started on several machines, it would train alone on
    // each of them.
    if (place == settings.end() || is_this_machine(place->second.values.back(), here)) continue;
    return failure(ErrorCode::kInvalidArgument, "{}: {} is another machine, but {}", place->second.source,
                   place->second.values.back(), whole_job(options));
  }
  if (!options.hosts.empty()) return {};
  for (const char* name : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}) {
    const auto count = here.environment.find(name);
    if (count == here.environment.end() || count->second.empty() || count->second == "1") continue;
    return failure(ErrorCode::kInvalidArgument,
                   "{}: Slurm allocated {} nodes, "
                   "but without --hosts all nodes of a launch run on this machine; "
                   "to use only this machine: "
                   "`env -u SLURM_JOB_NUM_NODES -u SLURM_NNODES launch --nodes {} --gpus-per-node {} {}`",
                   name, count->second, nodes_text(options), count_text(options.workers_per_node),
                   options.program.front());
  }
  return {};
}

std::optional<std::string> notice_of_one_machine(const Settings& settings, const Options& options,
                                                 const Surroundings& here) {
  if (options.nodes == 1 || !options.hosts.empty() || is_standalone(settings)) return std::nullopt;
  for (const char* name : {"master-addr", "rdzv-endpoint"}) {
    const auto place = settings.find(name);
    if (place == settings.end()) continue;
    const std::string_view host = host_in(place->second.values.back());
    if (host.empty() || host == "localhost" || !is_name_of(host, here.hostname)) continue;
    return fmt::format(
        "{}: {} is this machine, and all {} nodes start here: to start nodes on other machines too, "
        "name all machines with --hosts",
        place->second.source, host, options.nodes);
  }
  return std::nullopt;
}

}  // namespace muster::launcher
