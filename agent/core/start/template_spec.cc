#include "agent/core/start/template_spec.h"

#include <algorithm>
#include <array>
#include <fmt/core.h>

namespace muster::agent {

namespace {

// Variables whose values differ between attempts. A template does not have them. Otherwise code that runs
// before init() could use the values of the first attempt.
constexpr std::array<std::string_view, 9> kNotCommon = {
    "GROUP_RANK",      "LOCAL_WORLD_SIZE", "WORLD_SIZE",  "GROUP_WORLD_SIZE",
    "ROLE_WORLD_SIZE", "MASTER_ADDR",      "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT",
    "MUSTER_ATTEMPT"};

// Prefixes of variables whose values can differ between the jobs of one agent, such as the trials of a sweep.
constexpr std::array<std::string_view, 7> kOfOneJob = {
    "MUSTER_PARAM_",        "MUSTER_TRIAL",        "MUSTER_SOCKET",      "MUSTER_CHECKPOINT_DIR",
    "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "TORCHELASTIC_RUN_ID"};

// By this variable the agent's guardian finds the processes of a job. A template also has the variable, but
// its value can be the id of an earlier job.
constexpr std::string_view kJobId = "MUSTER_JOB_ID";

// These prefixes are the result of an experiment: getenv() was watched while LibTorch 2.11 and 2.15 and their
// CUDA libraries were loaded. The other prefixes are those of the loader (LD_), the C library (GLIBC_ and
// MALLOC_) and the interpreter (PYTHON).
constexpr std::array<std::string_view, 20> kReadWhileLoading = {"OMP_",
                                                                "GOMP_",
                                                                "KMP_",
                                                                "ONEDNN_",
                                                                "DNNL_",
                                                                "MKLDNN_",
                                                                "OPENBLAS_",
                                                                "LD_",
                                                                "GLIBC_",
                                                                "MALLOC_",
                                                                "PYTORCH_ALLOC_CONF",
                                                                "PYTORCH_CUDA_ALLOC_CONF",
                                                                "TORCH_SYMMMEM",
                                                                "TORCH_VITAL",
                                                                "CUDA_LAUNCH_BLOCKING",
                                                                "CUBLAS",
                                                                "CASK",
                                                                "INTEL_LIBITTNOTIFY",
                                                                "NVRTC_",
                                                                "PYTHON"};

constexpr std::string_view kOpenBlasThreads = "OPENBLAS_NUM_THREADS";

bool is_python(const std::string& path) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == std::string_view::npos;
}

Environment lasting_environment(const NodeContext& node, const wire::JobSpec& job,
                                const wire::PrepareAttempt& plan) {
  Environment environment = common_environment(node, job, plan, {});
  for (const std::string_view name : kNotCommon) environment.erase(std::string(name));
  if (!node.keeps_template) return environment;
  std::erase_if(environment, [](const auto& entry) {
    return std::ranges::any_of(kOfOneJob,
                               [&](std::string_view start) { return entry.first.starts_with(start); });
  });
  return environment;
}

std::optional<std::string> value_in(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::nullopt : std::optional(found->second);
}

// Returns whether a rank with these arguments can be forked from this template. The template must be one that
// takes arguments.
bool fits(const TemplateSpec& spec, const std::vector<std::string>& arguments) {
  const std::size_t fixed = spec.fixed_words.value_or(arguments.size() + 1);
  return arguments.size() >= fixed &&
         std::equal(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(fixed),
                    spec.rank_arguments.begin());
}

}  // namespace

std::expected<TemplateSpec, std::string> wanted_template(const ProgramFacts& program, const NodeContext& node,
                                                         const wire::JobSpec& job,
                                                         const wire::PrepareAttempt& plan) {
  const bool wanted = job.warm == wire::Warm::kOn || (job.warm == wire::Warm::kAuto && program.has_note);
  if (!wanted) return std::unexpected("");
  TemplateSpec spec{.program = program.path,
                    .file = program.file,
                    .arguments = arguments_of(job.command, LocalRank(0)),
                    .rank_arguments = {},
                    .fixed_words = program.has_note ? std::optional<std::size_t>(1) : std::nullopt,
                    .environment = lasting_environment(node, job, plan),
                    .working_directory = job.working_directory};
  spec.rank_arguments = spec.arguments;
  if (arguments_of(job.command, LocalRank(plan.local_world_size - 1)) != spec.arguments)
    return std::unexpected("the arguments differ from rank to rank");
  if (program.has_note || !is_python(program.path)) return spec;
  if (program.python_runner.empty()) return std::unexpected("Muster's Python runner is not installed");
  spec.arguments = python_template_command(spec.arguments, program.python_runner);
  if (spec.arguments.empty()) return std::unexpected("the Python command has neither a script nor a module");
  const auto runner = std::ranges::find(spec.arguments, program.python_runner);
  spec.fixed_words = static_cast<std::size_t>(runner - spec.arguments.begin());
  // numpy's OpenBLAS starts threads while it loads. A process with threads cannot be forked.
  spec.environment.try_emplace(std::string(kOpenBlasThreads), "1");
  return spec;
}

std::vector<std::string> python_template_command(const std::vector<std::string>& command,
                                                 const std::string& runner) {
  constexpr std::array<std::string_view, 3> kWithValue = {"-W", "-X", "--check-hash-based-pycs"};
  std::size_t at = 1;
  while (at < command.size() && command[at].starts_with('-') && !command[at].starts_with("-m")) {
    if (command[at] == "-" || command[at].starts_with("-c")) return {};
    at += std::ranges::find(kWithValue, command[at]) != kWithValue.end() ? 2 : 1;
  }
  if (at >= command.size()) return {};
  std::vector<std::string> result = command;
  result.insert(result.begin() + static_cast<std::ptrdiff_t>(at), runner);
  return result;
}

bool is_read_while_loading(std::string_view variable) {
  return std::ranges::any_of(kReadWhileLoading,
                             [&](std::string_view start) { return variable.starts_with(start); });
}

bool can_serve(const TemplateSpec& loaded, const TemplateSpec& wanted, bool takes_arguments) {
  TemplateSpec like = wanted;
  if (const auto id = value_in(loaded.environment, std::string(kJobId)))
    like.environment[std::string(kJobId)] = *id;
  if (takes_arguments && loaded.fixed_words == wanted.fixed_words && fits(loaded, wanted.rank_arguments)) {
    like.arguments = loaded.arguments;
    like.rank_arguments = loaded.rank_arguments;
  }
  return like == loaded;
}

std::expected<ForkOrder, std::string> order_for(const TemplateSpec& spec, bool takes_arguments,
                                                const std::vector<std::string>& arguments,
                                                const Environment& environment) {
  ForkOrder order;
  if (arguments != spec.rank_arguments) {
    if (!takes_arguments || !fits(spec, arguments))
      return std::unexpected("its arguments differ from the template's");
    order.arguments.emplace(arguments.begin() + static_cast<std::ptrdiff_t>(*spec.fixed_words),
                            arguments.end());
  }
  for (const auto& [name, value] : environment) {
    const auto before = value_in(spec.environment, name);
    if (before == value) continue;
    if (is_read_while_loading(name))
      return std::unexpected(
          fmt::format("its {} differs from the other ranks', and libraries read it while they load", name));
    order.environment.push_back(name + "=" + value);
  }
  for (const auto& [name, value] : spec.environment) {
    if (environment.contains(name)) continue;
    if (is_read_while_loading(name) && name != kOpenBlasThreads)
      return std::unexpected(fmt::format("it has no {}, which libraries read while they load", name));
    order.environment.push_back(name);
  }
  return order;
}

}  // namespace muster::agent
