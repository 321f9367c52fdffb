// launch: reads what the user wants, makes a plan, and carries it out. This file is the wiring diagram.
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/machine.h"
#include "common/base/process.h"
#include "launcher/core/report.h"
#include "launcher/io/command_line.h"
#include "launcher/io/gpus.h"
#include "launcher/io/job_directory.h"
#include "launcher/io/launcher.h"
#include "launcher/io/program_file.h"

namespace muster::launcher {
namespace {

constexpr Duration kFlushLimit = std::chrono::seconds(5);

int refuse(const Error& error, int exit_code) {
  (void)write_all(STDERR_FILENO, fmt::format("launch: {}\n", error.message()), "stderr");
  return exit_code;
}

void print(int fd, std::string_view text) {
  (void)write_all(fd, text, "output");
}

// Blocked from the start and read as data, so that none is lost. What the caller has ignored (nohup) stays
// so.
UniqueFd take_signals() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGCHLD);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    struct sigaction current{};
    sigaction(number, nullptr, &current);
    if (current.sa_handler != SIG_IGN) sigaddset(&taken, number);
  }
  sigprocmask(SIG_BLOCK, &taken, nullptr);
  UniqueFd fd(signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC));
  CHECK(fd.get() >= 0, "errno {}", errno);
  return fd;
}

Surroundings look_around() {
  Surroundings here;
  here.environment = own_environment();
  char buffer[4096] = "/";
  if (getcwd(buffer, sizeof buffer) != nullptr) here.working_directory = buffer;
  if (gethostname(buffer, sizeof buffer) == 0) here.hostname = buffer;
  return here;
}

std::optional<std::string> variable(const Surroundings& here, const Plan* plan, const char* name) {
  if (plan != nullptr && plan->job.environment.contains(name)) return plan->job.environment.at(name);
  const auto found = here.environment.find(name);
  return found == here.environment.end() ? std::nullopt : std::optional(found->second);
}

Machine look_at_machine(const Options& options, const Surroundings& here) {
  Machine machine{.core_count = count_cores(), .gpu_count = 0, .gpu_note = ""};
  if (needs_gpu_count(options)) {
    GpuCount gpus = count_gpus(variable(here, nullptr, "CUDA_VISIBLE_DEVICES"));
    machine.gpu_count = gpus.count;
    machine.gpu_note = std::move(gpus.note);
  }
  return machine;
}

// All that is to be written to, or nothing.
Status make_places(const Plan& plan) {
  if (Status made = make_job_directory(plan.job.log_directory); !made)
    return std::unexpected(std::move(made).error().within("--log-dir"));
  if (plan.job.checkpoint_directory.empty()) return {};
  if (Status usable = CheckpointDirectory(plan.job.checkpoint_directory).check_writable(); !usable) {
    rmdir(plan.job.log_directory.c_str());
    return std::unexpected(std::move(usable).error().within("--checkpoint-dir"));
  }
  return {};
}

int run(const Plan& plan, const Options& options, const std::vector<std::string>& notices, int signals) {
  const auto agent_program = LocalBootstrap::find_agent_program();
  if (!agent_program) return refuse(agent_program.error(), kExitInternal);
  if (const Status made = make_places(plan); !made) return refuse(made.error(), kExitUsage);
  const auto journal = open_journal(plan.job.log_directory);
  if (!journal) return refuse(journal.error(), kExitUsage);

  const TimePoint started = Clock::now();
  asio::io_context context(1);
  Terminal terminal(context.get_executor(), options.json);
  const LocalBootstrap bootstrap(*agent_program, plan.job.log_directory);
  Launcher launcher(plan, {context, terminal, bootstrap, signals, journal->get(), options.quiet});
  for (const std::string& notice : notices) terminal.say(notice);
  launcher.run();

  const Job& job = launcher.job();
  const Outcome outcome{plan, job.verdict(), job.history(), job.restart_count(), Clock::now() - started};
  const std::string report = report_as_json(outcome);
  const bool succeeded = outcome.verdict.exit_code == 0;
  if (!(options.quiet && succeeded)) terminal.print(2, summary(outcome));
  if (const Status written = write_file_durably(plan.job.log_directory + "/report.json", report); !written) {
    terminal.say(written.error().message());
  }
  if (options.json) terminal.print(1, report);
  terminal.flush(kFlushLimit);
  return outcome.verdict.exit_code;
}

int main(const std::vector<std::string>& words) {
  open_standard_streams();
  const UniqueFd signals = take_signals();
  log::set_up("launch", log::Level::kWarning);
  const Surroundings here = look_around();
  auto asked = read_command_line(words, here);
  if (!asked) return refuse(asked.error(), kExitUsage);
  if (const auto* answer = std::get_if<Answer>(&*asked)) {
    print(STDOUT_FILENO, answer->text);
    return 0;
  }
  Request& request = std::get<Request>(*asked);
  const Machine machine = look_at_machine(request.options, here);
  const auto plan = make_plan(request.options, machine, here, make_job_id(request.options.job_name));
  if (!plan) return refuse(plan.error(), kExitUsage);
  if (const Status found =
          check_program(plan->job.command, variable(here, &*plan, "PATH").value_or("/usr/bin:/bin"));
      !found) {
    return refuse(found.error(), found.error().code() == ErrorCode::kNotFound ? 127 : 126);
  }
  if (request.options.dry_run) {
    print(STDOUT_FILENO, request.options.json ? plan_as_json(*plan) : plan_as_text(*plan));
    return 0;
  }
  if (auto notice = thread_notice(*plan, machine, here.environment))
    request.notices.push_back(std::move(*notice));
  if (request.options.quiet) request.notices.clear();
  return run(*plan, request.options, request.notices, signals.get());
}

}  // namespace
}  // namespace muster::launcher

int main(int argc, char** argv) {
  return muster::launcher::main({argv + 1, argv + argc});
}
