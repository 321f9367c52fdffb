// `launch run`, the default: runs a job from its plan to its verdict. `launch plan` stops after the plan.
#include <filesystem>
#include <unistd.h>

#include "launcher/commands/checkpoint_use.h"
#include "launcher/commands/gpu_use.h"
#include "launcher/commands/prepare.h"
#include "launcher/commands/signals.h"
#include "launcher/core/text/words.h"
#include "launcher/core/view/report.h"
#include "launcher/io/fleet/container_preparation.h"
#include "launcher/io/fleet/local_bootstrap.h"
#include "launcher/io/fleet/sync.h"
#include "launcher/io/local_launcher.h"
#include "launcher/io/view/job_directory.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

// After the user has stopped the job, a slow reader of the last lines gets this time.
constexpr Duration kFlushLimit = std::chrono::seconds(5);

// Users can choose a port. In each attempt, one agent listens on it. This function checks, before anything is
// created, whether the port can be used. If the job has hosts, the function checks nothing, because the
// launcher does not know yet on which host that agent will be.
Status check_port(const Options& options) {
  if (options.master_port == 0 || !options.hosts.empty()) return {};
  asio::io_context context(1);
  asio::ip::tcp::acceptor acceptor(context);
  const asio::ip::tcp::endpoint place(asio::ip::address_v4::loopback(),
                                      static_cast<std::uint16_t>(options.master_port));
  boost::system::error_code error;
  acceptor.open(place.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(place, error);
  if (!error) acceptor.listen(1, error);
  if (!error) return {};
  return failure(ErrorCode::kInvalidArgument, "{}: cannot use port {}: {}: give another port, or none",
                 options.master_port_source, options.master_port, error.message());
}

Status refuse_place(const char* flag, const Error& error) {
  return failure(ErrorCode::kInvalidArgument, "{}: {}: give a directory that you can write to", flag,
                 error.message());
}

// Creates the directories of the job. If one of them cannot be created, it creates none.
Status make_places(const Plan& plan) {
  if (Status made = make_job_directory(plan.job.log_directory); !made)
    return refuse_place("--log-dir", made.error());
  if (plan.job.checkpoint_directory.empty()) return {};
  if (Status usable = CheckpointDirectory(plan.job.checkpoint_directory).check_writable(); !usable) {
    rmdir(plan.job.log_directory.c_str());
    return refuse_place("--checkpoint-dir", usable.error());
  }
  return {};
}

// Returns the flag with which other commands find the jobs of this launch. Returns "" if the jobs are in the
// usual directory.
std::string log_directory_flag(const Options& options, const Surroundings& here) {
  const auto usual = log_directory_of(CommandArguments{}, here);
  if (usual && *usual == options.log_directory) return "";
  return " --log-dir " + as_shell_word(options.log_directory);
}

// Waits until the log writer has written everything. Gives up if the disk takes nothing for `stall`.
void write_last_lines(asio::io_context& context, const net::LogWriter& files, Duration stall) {
  asio::co_spawn(context, files.written(stall, [] { return true; }),
                 [&context](const std::exception_ptr&) { context.stop(); });
  context.restart();  // the last run() may have ended for lack of work, which stops the context
  context.run();
}

// Returns whether any worker has printed something in any attempt.
bool has_output(const std::string& log_directory) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator next(log_directory, error);
  for (; !error && next != std::filesystem::recursive_directory_iterator(); next.increment(error)) {
    const std::string name = next->path().filename();
    if (name == "stdout.log" || name == "stderr.log") {
      if (next->file_size(error) > 0 && !error) return true;
    }
  }
  return false;
}

int carry_out(const Prepared& prepared, const Surroundings& here, const std::vector<std::string>& notices,
              int signals) {
  Plan plan = prepared.plan;
  const Options& options = prepared.request.options;
  const auto agent_program = LocalBootstrap::find_agent_program();
  if (!agent_program) return refuse(agent_program.error(), kExitInternal);
  if (const Status free = check_port(options); !free) return refuse(free.error(), kExitUsage);
  asio::io_context context(1);
  net::LogWriter files(context.get_executor());
  if (const Status started = files.start(); !started) return refuse(started.error(), kExitInternal);
  if (const Status made = make_places(plan); !made) return refuse(made.error(), kExitUsage);
  if (!plan.hosts.empty()) {
    auto nonce = leave_nonce(plan.job.log_directory);
    if (!nonce) return refuse(nonce.error(), kExitUsage);
    plan.job.log_nonce = *std::move(nonce);
  }

  const TimePoint started = Clock::now();
  const double started_unix = unix_now();
  const DisplayOptions& display = prepared.request.display;
  std::optional<PrefixTemplate> prefix;
  if (display.line_prefix) prefix = {*display.line_prefix, options.role, here.hostname};
  Terminal terminal(context.get_executor(), options.json, display.fold, std::move(prefix));
  for (const int stream : {1, 2})
    plan.job.terminal_streams |= terminal.shows_on_terminal(stream) ? stream : 0;
  const auto say = [&terminal](const std::string& text) { terminal.say(text); };
  int failed = 0;
  if (!plan.remote.sync.empty()) failed = sync_hosts(plan, {signals, say});
  if (failed == 0 && plan.remote.bootstrap == BootstrapKind::kDocker)
    failed = prepare_containers(plan, {signals, say});
  if (failed != 0) {
    std::error_code ignored;
    std::filesystem::remove_all(plan.job.log_directory, ignored);  // no job has started
    terminal.flush({.stall = options.limits.output_stall, .limit = kFlushLimit, .signals = signals});
    return failed;
  }
  LocalLauncher launcher(plan,
                         {context, terminal, files, *agent_program, signals, options.quiet, started_unix});
  for (const std::string& notice : notices) terminal.say(notice);
  launcher.run();
  write_last_lines(context, files, options.limits.output_stall);
  if (!options.quiet) {
    for (const std::string& line : launcher.missing_logs()) terminal.say(line);
  }

  const Job& job = launcher.job();
  const TimePoint now = Clock::now();
  // Only the text about a failure uses this value. So if the job succeeded, it is not necessary to look at
  // the log files.
  const bool has_printed =
      job.verdict().kind == Verdict::Kind::kSucceeded || has_output(plan.job.log_directory);
  const Outcome outcome{plan,          job.verdict(), job.history(), job.restart_count(),
                        now - started, now,           unix_now(),    log_directory_flag(options, here),
                        job.names(),   has_printed};
  const std::string report = report_as_json(outcome);
  const bool succeeded = outcome.verdict.exit_code == 0;
  if (!(options.quiet && succeeded)) terminal.print(2, summary(outcome));
  if (const Status written = write_file_durably(plan.job.log_directory + "/report.json", report); !written) {
    terminal.say(written.error().message());
  }
  if (options.json) terminal.print(1, report);
  const bool cut_short = was_stopped(outcome.verdict);
  terminal.flush({.stall = options.limits.output_stall,
                  .limit = cut_short ? kFlushLimit : Duration::max(),
                  .signals = signals});
  return outcome.verdict.exit_code;
}

int print_plan(const Prepared& prepared) {
  return print(prepared.request.options.json ? plan_as_json(prepared.plan) : plan_as_text(prepared.plan));
}

}  // namespace

int run(const Invocation& invocation) {
  const UniqueFd signals = take_signals();
  auto prepared = prepare(invocation);
  if (!prepared) return prepared.error();
  if (const int missing = refuse_program(*prepared, invocation); missing != 0) return missing;
  const Options& options = prepared->request.options;
  if (options.dry_run) return print_plan(*prepared);
  std::vector<std::string> notices = prepared->request.notices;
  const int refused = settle_checkpoint_use(options, signals.get(), notices);
  if (refused != 0) return refused;
  if (auto notice = core_notice(prepared->plan, prepared->machine, invocation.here.environment))
    notices.push_back(std::move(*notice));
  if (auto notice = gpu_notice(prepared->plan, prepared->machine)) notices.push_back(std::move(*notice));
  if (const int ended = settle_gpu_use(*prepared, invocation.here, signals.get(), notices); ended != 0)
    return ended;
  if (options.quiet) notices.clear();
  return carry_out(*prepared, invocation.here, notices, signals.get());
}

int plan(const Invocation& invocation) {
  const auto prepared = prepare(invocation);
  if (!prepared) return prepared.error();
  const int refused = refuse_program(*prepared, invocation);
  return refused != 0 ? refused : print_plan(*prepared);
}

}  // namespace muster::launcher
