#include "agent/core/start/environment.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

#include "common/base/text.h"
#include "common/wire/nccl_variables.h"

namespace muster::agent {

namespace {

constexpr const char* kGpus = "CUDA_VISIBLE_DEVICES";
constexpr const char* kRocmGpus = "HIP_VISIBLE_DEVICES";  // ROCm reads both variables, and this one wins

constexpr const char* kNcclHost = "NCCL_HOSTID";

// srun, mpirun and mpiexec set variables with these prefixes for their processes. Workers do not get these
// variables. If a rank had one, its MPI library would believe that the rank is a process of srun, mpirun or
// mpiexec. Other variables that begin with PMIX_MCA_, PRTE_MCA_ or OMPI_MCA_ are settings of the user, and
// stay. With --env, the user can set any variable.
constexpr std::string_view kOfOuterMpi[] = {"PMI_",
                                            "PMIX_",
                                            "PRTE_",
                                            "HYDI_",
                                            "JSM_",
                                            "MPI_LOCAL",
                                            "OMPI_APP_CTX_",
                                            "OMPI_ARGV",
                                            "OMPI_COMMAND",
                                            "OMPI_COMM_WORLD_",
                                            "OMPI_FILE_LOCATION",
                                            "OMPI_FIRST_RANKS",
                                            "OMPI_NUM_APP_CTX",
                                            "OMPI_UNIVERSE_SIZE",
                                            "OMPI_WORLD_",
                                            "OMPI_MCA_ess",
                                            "OMPI_MCA_initial_wdir",
                                            "OMPI_MCA_num_procs",
                                            "OMPI_MCA_orte_",
                                            "SLURM_STEP",
                                            "SLURM_PROCID",
                                            "SLURM_LOCALID",
                                            "SLURM_TASK_PID",
                                            "SLURM_GTIDS",
                                            "SLURM_SRUN_COMM_"};

bool is_of_outer_mpi(std::string_view name) {
  return !name.starts_with("PMIX_MCA_") && !name.starts_with("PRTE_MCA_") &&
         std::ranges::any_of(kOfOuterMpi, [name](std::string_view begin) { return name.starts_with(begin); });
}

template <class Map>
std::optional<std::string> variable_in(const Map& map, const char* name) {
  const auto found = map.find(name);
  return found == map.end() ? std::nullopt : std::optional(found->second);
}

// Returns the value of the variable. The user's value is taken first, then the launcher's, and then the
// agent's.
std::optional<std::string> variable_of(const NodeContext& node, const wire::JobSpec& job, const char* name) {
  if (auto given = variable_in(job.environment, name)) return given;
  if (auto passed = variable_in(job.inherited, name)) return passed;
  return variable_in(node.inherited, name);
}

// Returns the value that the workers of this agent get for the variable `name`, for example "2,3" for
// CUDA_VISIBLE_DEVICES. If the agent does not share the machine's GPUs with other agents, returns the value
// that is set already, or nothing. If several agents share the machine, the list of GPUs is divided among
// them. LOCAL_RANK is an index into the agent's share, as users of torchrun expect.
std::optional<std::string> visible_gpus(const NodeContext& node, const wire::JobSpec& job,
                                        const wire::PrepareAttempt& plan, const char* name) {
  const auto given = variable_of(node, job, name);
  if (!job.use_gpus || plan.agents_on_host <= 1) return given;  // all of them, under their own numbers
  std::vector<std::string> devices;
  if (given) {
    for (const std::string_view device : split(*given, ',')) {
      if (!device.empty()) devices.emplace_back(device);
    }
  } else {
    for (int i = 0; i < plan.agents_on_host * plan.local_world_size; ++i)
      devices.push_back(std::to_string(i));
  }
  const std::size_t share = devices.size() / static_cast<std::size_t>(plan.agents_on_host);
  const auto first = devices.begin() + static_cast<std::ptrdiff_t>(share) * plan.agent_on_host;
  return fmt::format("{}", fmt::join(first, first + static_cast<std::ptrdiff_t>(share), ","));
}

// Returns the CUDA_VISIBLE_DEVICES of a worker that sees only one GPU.
std::string only_gpu(const std::optional<std::string>& list, LocalRank local_rank) {
  if (!list) return fmt::format("{}", local_rank);
  const auto devices = split(*list, ',');
  const auto index = static_cast<std::size_t>(local_rank.value());
  if (index >= devices.size()) return "";
  std::string_view device = devices[index];
  while (device.starts_with(' ')) device.remove_prefix(1);
  while (device.ends_with(' ')) device.remove_suffix(1);
  return std::string(device);
}

// Returns the GPU of a worker that shares it with other workers. Returns nothing if the machine has a GPU for
// each worker, or none at all. The workers of all agents on the machine take the GPUs in turn.
std::optional<std::string> shared_gpu(const NodeContext& node, const wire::JobSpec& job,
                                      const wire::PrepareAttempt& plan, LocalRank local_rank,
                                      const char* name) {
  if (!job.use_gpus || !job.share_gpus) return std::nullopt;
  const auto list = variable_of(node, job, name);
  const std::int32_t count = list ? static_cast<std::int32_t>(split(*list, ',').size()) : node.gpu_count;
  const std::int32_t worker_count = std::max(1, plan.agents_on_host) * plan.local_world_size;
  if (count == 0 || worker_count <= count || list == "") return std::nullopt;
  const std::int32_t place = plan.agent_on_host * plan.local_world_size + local_rank.value();
  return only_gpu(list, LocalRank(place % count));
}

void set_torchrun(Environment& environment, const wire::JobSpec& job, const wire::PrepareAttempt& plan,
                  const wire::StartWorkers& start, const NodeContext& node) {
  // If every node has the same number of ranks, the node's number in the attempt follows from its first rank.
  // The node's number in the attempt can differ from its number in the job, because the job can have spare
  // nodes.
  const bool even = plan.local_world_size * plan.node_count == plan.world_size;
  const int group_rank = even ? plan.first_rank.value() / plan.local_world_size : node.node.value();
  const auto set = [&environment](const char* name, auto value) {
    environment[name] = fmt::format("{}", value);
  };
  set("GROUP_RANK", group_rank);
  set("ROLE_NAME", job.role);
  set("LOCAL_WORLD_SIZE", plan.local_world_size);
  set("WORLD_SIZE", plan.world_size);
  set("GROUP_WORLD_SIZE", plan.node_count);
  set("ROLE_WORLD_SIZE", plan.world_size);
  set("MASTER_ADDR", start.master_address);
  set("MASTER_PORT", start.master_port);
  set("TORCHELASTIC_RESTART_COUNT", plan.restart_count);
  set("TORCHELASTIC_MAX_RESTARTS", job.max_restarts);
  set("TORCHELASTIC_RUN_ID", job.run_id.empty() ? job.job_id : job.run_id);
  set("TORCHELASTIC_USE_AGENT_STORE", job.store_on_agent ? "True" : "False");
  // Without this variable, Gloo chooses the interface by the host's name, and other hosts may not reach it.
  if (!node.interface.empty()) environment.try_emplace("GLOO_SOCKET_IFNAME", node.interface);
}

void set_nccl(Environment& environment, const wire::JobSpec& job, const NodeContext& node) {
  std::vector<std::string_view> chosen;
  const auto choose = [&](const char* name, const std::string& value) {
    if (environment.try_emplace(name, value).second) chosen.emplace_back(name);
  };
  if (!node.interface.empty()) choose(wire::kNcclInterface, node.interface);
  for (const wire::NcclVariable& each : wire::kNcclVariables) {
    const auto is_set = [&](const char* name) { return environment.contains(name); };
    if (wire::is_wanted(each, job.use_gpus, is_set)) choose(each.name, each.value);
  }
  environment.erase(wire::kChosenVariables);
  if (job.use_gpus && !chosen.empty())
    environment[wire::kChosenVariables] = fmt::format("{}", fmt::join(chosen, ","));
}

bool sets_flight_record(const NodeContext& node, const wire::JobSpec& job) {
  return std::ranges::any_of(std::array{wire::kFlightRecord, wire::kOldFlightRecord}, [&](const char* name) {
    return node.inherited.contains(name) || job.inherited.contains(name) || job.environment.contains(name);
  });
}

// Sets the variables that MPI programs read. It also sets some settings of MPI libraries. A setting that the
// user has made stays as it is.
void set_mpi(Environment& environment, const wire::PrepareAttempt& plan, const wire::StartWorkers& start,
             const NodeContext& node) {
  if (node.mpi.kind == wire::Mpi::kPmi) {
    environment["PMI_SIZE"] = fmt::format("{}", plan.world_size);
    environment["MPI_LOCALNRANKS"] = fmt::format("{}", plan.local_world_size);
    if (!node.mpi.segments.empty()) environment.try_emplace("UCX_POSIX_DIR", node.mpi.segments);
    return;
  }
  environment["OMPI_COMM_WORLD_SIZE"] = fmt::format("{}", plan.world_size);
  environment["OMPI_UNIVERSE_SIZE"] = fmt::format("{}", plan.world_size);
  environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = fmt::format("{}", plan.local_world_size);
  // Open MPI 4 looks for the variables of a launcher that it knows. If it finds none, it runs as a single
  // process. This variable stands for "any PMIx server".
  environment["JSM_JSRUN_PORT"] = "1";
  // JAX recognizes Open MPI by the variable OMPI_MCA_orte_hnp_uri, which has the address of mpirun. JAX makes
  // rank 0 listen at this address. It computes the port from the first number in the value, which is 4096
  // times the port. The ranks of Open MPI do not use the address.
  const std::string host = start.master_address.contains(':')
                               ? fmt::format("tcp6://[{}]", start.master_address)
                               : "tcp://" + start.master_address;
  environment.try_emplace("OMPI_MCA_orte_hnp_uri",
                          fmt::format("{}.0;{}:{}", 4096LL * start.master_port, host, start.master_port));
  if (!node.mpi.segments.empty())
    environment.try_emplace("OMPI_MCA_btl_vader_backing_directory", node.mpi.segments);
  // In Open MPI, a waiting rank uses its core all the time. If there are more ranks than cores, a waiting
  // rank would take the core from the ranks for which it waits. With this variable, a waiting rank yields its
  // core. mpirun sets the variable, too.
  if (plan.local_world_size * plan.agents_on_host > node.core_count)
    environment.try_emplace("OMPI_MCA_mpi_yield_when_idle", "1");
  const bool on_one_host = start.master_address == "127.0.0.1" || start.master_address == "localhost";
  const std::string interface = on_one_host ? "lo" : node.interface;
  if (interface.empty() || environment.contains("OMPI_MCA_btl_tcp_if_exclude")) return;
  environment.try_emplace("OMPI_MCA_btl_tcp_if_include", interface);
}

}  // namespace

std::string rank_directory(const wire::JobSpec& job, Attempt attempt, Rank rank) {
  return fmt::format("{}/attempt_{}/rank_{}", job.log_directory, attempt, rank);
}

std::string fallback_log_directory(const Environment& own, const std::string& job_id) {
  const auto state = variable_in(own, "XDG_STATE_HOME").value_or("");
  if (state.starts_with('/')) return fmt::format("{}/muster/{}", state, job_id);
  const auto home = variable_in(own, "HOME").value_or("");
  return home.starts_with('/') ? fmt::format("{}/.local/state/muster/{}", home, job_id) : "";
}

std::string error_file(const wire::JobSpec& job, Attempt attempt, Rank rank) {
  return fmt::format("{}/attempt_{}/error_{}.json", job.log_directory, attempt, rank);
}

std::string trace_file(const NodeContext& node, const wire::JobSpec& job, Rank rank) {
  return fmt::format("{}/{}", rank_directory(job, node.attempt, rank), name_of(wire::LogFile::kTrace));
}

Environment common_environment(const NodeContext& node, const wire::JobSpec& job,
                               const wire::PrepareAttempt& plan, const wire::StartWorkers& start) {
  Environment environment = node.inherited;
  for (const auto& [name, value] : job.inherited) environment[name] = value;
  if (node.mpi.kind != wire::Mpi::kNone)
    std::erase_if(environment, [](const auto& entry) { return is_of_outer_mpi(entry.first); });
  for (const auto& [name, value] : job.environment) environment[name] = value;
  set_torchrun(environment, job, plan, start, node);
  set_nccl(environment, job, node);
  if (node.mpi.kind != wire::Mpi::kNone) set_mpi(environment, plan, start, node);
  const int workers_on_host = std::max(1, plan.local_world_size * plan.agents_on_host);
  environment.try_emplace("OMP_NUM_THREADS", std::to_string(std::max(1, node.core_count / workers_on_host)));
  if (const auto gpus = visible_gpus(node, job, plan, kGpus)) environment[kGpus] = *gpus;
  environment["MUSTER_JOB_ID"] = job.job_id;
  environment["MUSTER_ATTEMPT"] = std::to_string(node.attempt.value());
  environment["MUSTER_NODE_ID"] = std::to_string(node.node.value());
  environment["MUSTER_SOCKET"] = node.socket_path;
  if (!node.python_module.empty()) {
    std::string& places = environment["PYTHONPATH"];
    places += (places.empty() ? "" : ":") + node.python_module;
  }
  // If this agent runs within another job, these variables of that job must not reach the workers.
  environment.erase("MUSTER_CHECKPOINT_DIR");
  environment.erase("MUSTER_RESUME_STEP");
  environment.erase("MUSTER_TRACE_FILE");
  environment.erase("MUSTER_LOCAL_RANK");
  for (const auto& [name, value] : rank_environment(node, job, plan, LocalRank(0))) environment.erase(name);
  if (!job.checkpoint_directory.empty()) environment["MUSTER_CHECKPOINT_DIR"] = job.checkpoint_directory;
  if (start.resume_step) environment["MUSTER_RESUME_STEP"] = std::to_string(*start.resume_step);
  return environment;
}

Environment rank_environment(const NodeContext& node, const wire::JobSpec& job,
                             const wire::PrepareAttempt& plan, LocalRank local_rank) {
  const Rank rank = plan.rank_of(local_rank);
  Environment environment = {{"LOCAL_RANK", fmt::format("{}", local_rank)},
                             {"RANK", fmt::format("{}", rank)},
                             {"ROLE_RANK", fmt::format("{}", rank)},
                             {"TORCHELASTIC_ERROR_FILE", error_file(job, node.attempt, rank)}};
  if (node.mpi.kind == wire::Mpi::kPmix) {
    environment["OMPI_COMM_WORLD_RANK"] = fmt::format("{}", rank);
    environment["OMPI_COMM_WORLD_LOCAL_RANK"] = fmt::format("{}", local_rank);
    environment["OMPI_COMM_WORLD_NODE_RANK"] = fmt::format("{}", local_rank);
  }
  if (node.mpi.kind == wire::Mpi::kPmi) {
    environment["PMI_RANK"] = fmt::format("{}", rank);
    environment["MPI_LOCALRANKID"] = fmt::format("{}", local_rank);
  }
  if (job.use_gpus && !sets_flight_record(node, job))
    environment[wire::kFlightRecord] =
        fmt::format("{}/{}", rank_directory(job, node.attempt, rank), wire::kFlightRecordName);
  if (job.trace) environment["MUSTER_TRACE_FILE"] = trace_file(node, job, rank);
  const bool has_rocm = !variable_of(node, job, kRocmGpus).value_or("").empty();
  const char* const list = has_rocm ? kRocmGpus : kGpus;
  const auto shared = shared_gpu(node, job, plan, local_rank, list);
  // NCCL refuses two ranks on one GPU of one host. With a host name for each rank, it accepts them.
  if (shared && !variable_of(node, job, kNcclHost))
    environment[kNcclHost] = fmt::format("{}-{}", job.job_id, rank);
  if (job.virtual_local_rank || shared) {
    environment["LOCAL_RANK"] = "0";
    environment["MUSTER_LOCAL_RANK"] = fmt::format("{}", local_rank);
    environment[kGpus] = shared ? *shared : only_gpu(visible_gpus(node, job, plan, list), local_rank);
    if (has_rocm) environment[kRocmGpus] = environment[kGpus];
  }
  return environment;
}

std::vector<std::string> entries_of(const Environment& environment) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : environment) entries.push_back(name + "=" + value);
  return entries;
}

std::optional<std::uint32_t> gpu_of(const Environment& environment, LocalRank local_rank) {
  const auto index = static_cast<std::size_t>(local_rank.value());
  const auto list = environment.find(kGpus);
  if (list == environment.end()) return static_cast<std::uint32_t>(index);
  const auto devices = split(list->second, ',');
  return index < devices.size() ? parse_number<std::uint32_t>(devices[index]) : std::nullopt;
}

std::vector<std::string> wrapper_of(const wire::JobSpec& job, Rank rank) {
  std::vector<std::string> words;
  for (const wire::Wrapper& each : job.wrappers) {
    if (rank >= each.first && rank <= each.last)
      words.insert(words.end(), each.words.begin(), each.words.end());
  }
  return words;
}

std::vector<std::string> arguments_of(const std::vector<std::string>& command, LocalRank local_rank) {
  constexpr std::string_view kMacro = "${local_rank}";
  const std::string number = std::to_string(local_rank.value());
  std::vector<std::string> arguments = command;
  for (std::string& argument : arguments) {
    for (std::size_t at = argument.find(kMacro); at != std::string::npos;
         at = argument.find(kMacro, at + number.size())) {
      argument.replace(at, kMacro.size(), number);
    }
  }
  return arguments;
}

}  // namespace muster::agent
