#include "launcher/commands/prepare.h"

#include <fcntl.h>
#include <filesystem>

#include "common/base/elf_file.h"
#include "common/base/machine.h"
#include "launcher/core/settings/debug_options.h"
#include "launcher/core/settings/gpu_options.h"
#include "launcher/core/settings/mpi_options.h"
#include "launcher/core/settings/other_tools.h"
#include "launcher/core/text/nearest.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/settings/gpus.h"
#include "launcher/io/settings/program_file.h"
#include "launcher/io/standard_input.h"
#include "launcher/io/view/job_directory.h"

namespace muster::launcher {

namespace {

// Returns the command that the user may have meant by `program`, a word that is not a program. If a file has
// this name, returns nothing.
std::optional<std::string_view> command_meant(const std::string& program, const Invocation& invocation) {
  std::error_code ignored;  // for example, the name is too long for a file
  const bool is_file =
      program.contains('/') || program.ends_with(".py") || std::filesystem::exists(program, ignored);
  if (!invocation.implied || is_file) return std::nullopt;
  std::vector<std::string_view> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return nearest(program, names);
}

std::string search_path_of(const Plan& plan, const Surroundings& here) {
  return variable_of(plan, here, "PATH").value_or("/usr/bin:/bin");
}

// With hosts, the job's program is needed on the hosts only, and their agents look for it. Only the program
// of --exec must be on this machine.
int refuse_host_shell(const RemoteOptions& remote, const Surroundings& here) {
  if (remote.bootstrap != BootstrapKind::kExec || remote.exec.front().contains("{host}")) return 0;
  const auto path = here.environment.find("PATH");
  const Status found =
      check_program({remote.exec.front()}, path == here.environment.end() ? "/usr/bin:/bin" : path->second);
  if (found) return 0;
  return refuse(Error(found.error()).within("--exec"),
                found.error().code() == ErrorCode::kNotFound ? 127 : 126);
}

// Returns the MPI that the program is built with. Returns nothing if the program is in an image, because it
// is not on this machine then.
std::optional<wire::Mpi> mpi_found(const Plan& plan, const Surroundings& here) {
  if (plan.remote.in_containers() || plan.job.command.empty()) return std::nullopt;
  return mpi_of_file(plan.job.command, search_path_of(plan, here));
}

// If no flag says which MPI the job uses, the script's first comment can say it.
Status read_script(Plan& plan, const Surroundings& here) {
  if (plan.job.mpi != wire::Mpi::kAuto || plan.remote.in_containers() || plan.job.command.empty()) return {};
  const std::string script = script_of(plan.job.command, search_path_of(plan, here));
  const auto path = std::filesystem::path(plan.job.working_directory) / script;
  std::error_code ignored;
  if (script.empty() || !std::filesystem::is_regular_file(path, ignored)) return {};
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  constexpr std::size_t kMostCommentBytes = 4096;
  const auto said = mpi_in_comment(reader_of(file)(0, kMostCommentBytes));
  if (!said) return std::unexpected(Error(said.error()).within(script));
  plan.job.mpi = said->value_or(plan.job.mpi);
  return {};
}

}  // namespace

Machine look_at_machine(const Options& options, const Surroundings& here) {
  Machine machine{.core_count = count_cores(), .gpu_count = 0, .gpu_note = ""};
  if (needs_gpu_count(options)) {
    const auto visible = here.environment.find("CUDA_VISIBLE_DEVICES");
    GpuCount gpus =
        count_gpus(visible == here.environment.end() ? std::nullopt : std::optional(visible->second));
    machine.gpu_count = gpus.count;
    machine.gpu_note = std::move(gpus.note);
  }
  return machine;
}

Expected<Planned> plan_of(const Options& options, const Machine& machine, const Surroundings& here,
                          std::string job_id) {
  auto plan = make_plan(options, machine, here, std::move(job_id));
  if (!plan) return std::unexpected(plan.error());
  if (!plan->hosts.empty() && !plan->job.command.empty()) {
    const Status found = check_program(plan->job.command, search_path_of(*plan, here));
    plan->program_is_here = found || found.error().code() != ErrorCode::kNotFound;
  }
  if (const Status read = read_script(*plan, here); !read) return std::unexpected(read.error());
  const auto of_program = mpi_found(*plan, here);
  settle_mpi(*plan, of_program);
  return Planned{*std::move(plan), of_program};
}

std::expected<Prepared, int> prepare(const Invocation& invocation) {
  auto asked = read_command_line(invocation.words, invocation.here, invocation.command);
  if (!asked) return std::unexpected(refuse(asked.error(), kExitUsage));
  if (const auto* answer = std::get_if<Answer>(&*asked)) return std::unexpected(print(answer->text));
  Request& request = std::get<Request>(*asked);
  if (auto refusal = invocation.implied && request.may_be_command
                         ? refusal_of_word(request.options.program.front())
                         : std::nullopt)
    return std::unexpected(refuse(Error(ErrorCode::kInvalidArgument, *std::move(refusal)), kExitUsage));
  Machine machine = look_at_machine(request.options, invocation.here);
  if (machine.gpu_count > 0 && !request.options.remote.in_containers())
    machine.gpus_in_use = gpus_in_use().value_or(std::vector<GpuInUse>());
  const auto& variables = invocation.here.environment;
  const auto visible = variables.find("CUDA_VISIBLE_DEVICES");
  for (std::string& notice :
       leave_out_gpus(request.options, machine,
                      visible == variables.end() ? std::nullopt : std::optional(visible->second)))
    request.notices.push_back(std::move(notice));
  auto planned = plan_of(request.options, machine, invocation.here, make_job_id(request.options.job_name));
  if (!planned) return std::unexpected(refuse(planned.error(), kExitUsage));
  settle_input(planned->plan, request.options, has_standard_input());
  const auto of_program = planned->mpi_of_program;
  if (auto notice = of_program ? mpi_notice(planned->plan, request.options.mpi, *of_program) : std::nullopt)
    request.notices.push_back(*std::move(notice));
  return Prepared{std::move(request), std::move(machine), std::move(planned->plan)};
}

int refuse_program(const Plan& plan, const std::string& program, const Surroundings& here) {
  if (!plan.hosts.empty()) return refuse_host_shell(plan.remote, here);
  const Status found = check_program(plan.job.command, search_path_of(plan, here));
  if (found) return 0;
  if (found.error().code() != ErrorCode::kNotFound) return refuse(found.error(), 126);
  if (is_launcher(program)) {
    return refuse(Error(ErrorCode::kNotFound,
                        fmt::format("{}; launch takes its place: `launch PROGRAM`", found.error().message())),
                  127);
  }
  const bool lacks_python = !check_program({plan.job.command.front()}, search_path_of(plan, here));
  if (const auto python = here.environment.find("PYTHON_EXEC");
      plan.chose_python && lacks_python && python != here.environment.end() && !python->second.empty())
    return refuse(Error(ErrorCode::kNotFound, "PYTHON_EXEC: " + found.error().message()), 127);
  return refuse(found.error(), 127);
}

int refuse_program(const Prepared& prepared, const Invocation& invocation) {
  const Plan& plan = prepared.plan;
  const std::string& word = prepared.request.options.program.front();
  const auto command = plan.hosts.empty() ? command_meant(word, invocation) : std::nullopt;
  const bool has_python = plan.chose_python && invocation.here.environment.contains("PYTHON_EXEC");
  if (!command || is_launcher(word) || has_python) return refuse_program(plan, word, invocation.here);
  const Status found = check_program(plan.job.command, search_path_of(plan, invocation.here));
  if (found || found.error().code() != ErrorCode::kNotFound)
    return refuse_program(plan, word, invocation.here);
  return refuse(Error(ErrorCode::kInvalidArgument, fmt::format("{}; did you mean the command `launch {}`?",
                                                               found.error().message(), *command)),
                kExitUsage);
}

std::optional<std::string> variable_of(const Plan& plan, const Surroundings& here, const char* name) {
  if (plan.job.environment.contains(name)) return plan.job.environment.at(name);
  const auto found = here.environment.find(name);
  return found == here.environment.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace muster::launcher
