#include "launcher/commands/prepare.h"

#include <filesystem>

#include "common/base/machine.h"
#include "launcher/core/settings/debug_options.h"
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

// The command that the user may have meant by a word that is not a program; nothing if a file has that name.
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

// With hosts, agents look for the job's program on their hosts. Only the --exec program must be on this
// machine.
int refuse_host_shell(const RemoteOptions& remote, const Surroundings& here) {
  if (remote.bootstrap != BootstrapKind::kExec || remote.exec.front().contains("{host}")) return 0;
  const auto path = here.environment.find("PATH");
  const Status found =
      check_program({remote.exec.front()}, path == here.environment.end() ? "/usr/bin:/bin" : path->second);
  if (found) return 0;
  return refuse(Error(found.error()).within("--exec"),
                found.error().code() == ErrorCode::kNotFound ? 127 : 126);
}

// The MPI that the program is built with; nothing for a program in an image, which is not on this machine.
std::optional<wire::Mpi> mpi_found(const Plan& plan, const Surroundings& here) {
  if (plan.remote.in_containers() || plan.job.command.empty()) return std::nullopt;
  return mpi_of_file(plan.job.command, search_path_of(plan, here));
}

}  // namespace

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
  auto plan = make_plan(request.options, machine, invocation.here, make_job_id(request.options.job_name));
  if (!plan) return std::unexpected(refuse(plan.error(), kExitUsage));
  if (!plan->hosts.empty() && !plan->job.command.empty()) {
    const Status here = check_program(plan->job.command, search_path_of(*plan, invocation.here));
    plan->program_is_here = here || here.error().code() != ErrorCode::kNotFound;
  }
  const wire::Mpi asked_mpi = plan->job.mpi;
  const auto of_program = mpi_found(*plan, invocation.here);
  settle_mpi(*plan, of_program);
  settle_input(*plan, request.options, has_standard_input());
  if (auto notice = of_program ? mpi_notice(*plan, asked_mpi, *of_program) : std::nullopt)
    request.notices.push_back(*std::move(notice));
  return Prepared{std::move(request), std::move(machine), std::move(*plan)};
}

int refuse_program(const Prepared& prepared, const Invocation& invocation) {
  if (!prepared.plan.hosts.empty()) return refuse_host_shell(prepared.plan.remote, invocation.here);
  const Status found =
      check_program(prepared.plan.job.command, search_path_of(prepared.plan, invocation.here));
  if (found) return 0;
  if (found.error().code() != ErrorCode::kNotFound) return refuse(found.error(), 126);
  const std::string& word = prepared.request.options.program.front();
  if (is_launcher(word)) {
    return refuse(Error(ErrorCode::kNotFound,
                        fmt::format("{}; launch takes its place: `launch PROGRAM`", found.error().message())),
                  127);
  }
  if (const auto python = invocation.here.environment.find("PYTHON_EXEC");
      prepared.plan.chose_python && python != invocation.here.environment.end() && !python->second.empty())
    return refuse(Error(ErrorCode::kNotFound, "PYTHON_EXEC: " + found.error().message()), 127);
  const auto command = command_meant(word, invocation);
  if (!command) return refuse(found.error(), 127);
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
