#include "launcher/commands/invocation.h"

#include <algorithm>
#include <cctype>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/color.h"
#include "common/base/file.h"
#include "common/base/home_directory.h"
#include "common/base/process.h"
#include "common/base/text.h"
#include "launcher/core/settings/help.h"
#include "launcher/core/text/plain_text.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

Surroundings look_around() {
  Surroundings here;
  here.environment = own_environment();
  if (std::string home = home_directory(); !home.empty()) here.environment["HOME"] = std::move(home);
  char buffer[4096] = "/";
  if (getcwd(buffer, sizeof buffer) != nullptr) here.working_directory = buffer;
  if (gethostname(buffer, sizeof buffer) == 0) here.hostname = buffer;
  return here;
}

namespace {

// The text of workers may contain control characters. If `fd` is a terminal, only text and colours are
// written.
Status write_text(int fd, std::string_view text) {
  const bool clean = isatty(fd) == 0 || is_plain(text);
  return write_all(fd, clean ? std::string(text) : for_terminal(text, colors_wanted()), "stdout");
}

}  // namespace

int print(std::string_view text, int exit_code) {
  const Status written = write_text(STDOUT_FILENO, text);
  if (!written) say(written.error().message());
  return written || exit_code != 0 ? exit_code : kExitInternal;
}

void say(const std::string& text) {
  (void)write_text(STDERR_FILENO, fmt::format("launch: {}\n", one_line(text)));
}

int refuse(const Error& error, int exit_code) {
  say(error.message());
  return exit_code;
}

std::optional<int> ask_before(const std::string& what, const std::string& list,
                              const CommandArguments& arguments) {
  if (arguments.has("yes")) return std::nullopt;
  if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0)
    return refuse(Error(ErrorCode::kInvalidArgument,
                        fmt::format("--yes is missing: there is no terminal to ask whether to {}", what)),
                  kExitUsage);
  (void)write_text(STDERR_FILENO, list);
  (void)write_text(STDERR_FILENO, fmt::format("launch: {}? [y/N] ", what));
  char answer[16];
  const ssize_t size = read(STDIN_FILENO, answer, sizeof answer);  // a terminal gives one line
  std::string line(answer, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  std::ranges::transform(line, line.begin(), [](unsigned char c) { return std::tolower(c); });
  if (line == "y\n" || line == "yes\n") return std::nullopt;
  say("nothing was changed");
  return 1;
}

std::size_t terminal_columns() {
  constexpr std::size_t kUsual = 80;
  if (isatty(STDOUT_FILENO) == 0) return 0;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

std::expected<CommandArguments, int> read_arguments(const Invocation& invocation) {
  auto arguments = read_command_arguments(invocation.command, invocation.words);
  if (!arguments) return std::unexpected(refuse(arguments.error(), kExitUsage));
  if (arguments->has("help")) return std::unexpected(print(help_of(invocation.command)));
  return std::move(*arguments);
}

Expected<std::string> log_directory_of(const CommandArguments& arguments, const Surroundings& here) {
  Settings settings;
  if (const auto given = arguments.flags.find("log-dir"); given != arguments.flags.end())
    settings["log-dir"] = {given->second.spelling, {given->second.value.value_or("")}};
  // Reads only the variables that name the directory. If other variables are wrong, this command must not
  // fail.
  Environment relevant;
  for (const char* name : {"MUSTER_LOG_DIR", "PET_LOG_DIR"}) {
    if (const auto found = here.environment.find(name); found != here.environment.end())
      relevant.insert(*found);
  }
  auto variables = settings_from_environment(relevant);
  if (!variables) return std::unexpected(variables.error());
  settings.merge(*variables);
  return log_directory_of(settings, here);
}

Expected<std::optional<std::uint64_t>> attempt_of(const CommandArguments& arguments) {
  if (!arguments.has("attempt")) return std::nullopt;
  const auto attempt = parse_number<std::uint64_t>(arguments.value("attempt"));
  if (!attempt || *attempt == 0)
    return failure(ErrorCode::kInvalidArgument, "--attempt: {} is not an attempt: give a number from 1",
                   arguments.value("attempt"));
  return *attempt;
}

Expected<JobEntry> find_job(const CommandArguments& arguments, const Surroundings& here,
                            Preferred preferred) {
  const auto directory = log_directory_of(arguments, here);
  if (!directory) return std::unexpected(directory.error());
  const auto jobs = list_jobs(*directory);
  if (!jobs) return std::unexpected(jobs.error());
  return choose_job(*jobs, arguments.operands.empty() ? "" : arguments.operands.front(), preferred,
                    *directory);
}

void tell_which(const JobEntry& job, const CommandArguments& arguments) {
  const std::string& name = job.record.job_id;
  if (arguments.operands.empty() || arguments.operands.front() != name) say("job " + name);
}

}  // namespace muster::launcher
