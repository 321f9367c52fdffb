#include "agent/io/health/spy.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/process.h"
#include "common/base/program.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr std::size_t kMaxProcessBytes = 4 << 20;
constexpr int kDeathLimit = 1000;  // milliseconds

// `file`: cmdline or environ.
std::string read_words(pid_t pid, const char* file) {
  return read_file(fmt::format("/proc/{}/{}", pid, file), kMaxProcessBytes).value_or("");
}

// Returns the first argument of the process. If the process runs in a virtual environment, this is the path
// of the Python of that environment.
std::string called_as(pid_t pid) {
  const std::string words = read_words(pid, "cmdline");
  return words.substr(0, words.find('\0'));
}

std::string search_path_of(pid_t pid) {
  constexpr std::string_view kName = "PATH=";
  const std::string words = read_words(pid, "environ");
  for (const std::string_view word : split(words, '\0')) {
    if (word.starts_with(kName)) return std::string(word.substr(kName.size()));
  }
  return "";
}

std::string target_of(pid_t pid, const char* link) {
  std::error_code error;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/{}", pid, link), error).string();
}

// Returns whether a signal has stopped the process. eu-stack could read such a process only by continuing it.
bool is_stopped(pid_t pid) {
  const std::string stat = read_words(pid, "stat");
  const std::size_t end = stat.rfind(") ");
  return end != std::string::npos && stat.substr(end + 2).starts_with("T");
}

// Returns the agent's environment, but leaves out one variable. With that variable, eu-stack would look up
// names over the network.
std::vector<std::string> environment_of_spies() {
  std::vector<std::string> environment;
  for (const auto& [name, value] : own_environment()) {
    if (name != "DEBUGINFOD_URLS") environment.push_back(name + "=" + value);
  }
  return environment;
}

}  // namespace

bool Spy::runs_python(pid_t pid) {
  return std::filesystem::path(target_of(pid, "exe")).filename().string().starts_with("python");
}

Expected<Spy> Spy::start(pid_t pid, int output, Way way) {
  const bool python = runs_python(pid);
  const std::string name = python ? "py-spy" : "eu-stack";
  const bool was_stopped = is_stopped(pid);
  if (!python && was_stopped) return failure(ErrorCode::kUnavailable, "the process is stopped");
  const auto program =
      look_up_beside(python ? called_as(pid) : "", name, search_path_of(pid), target_of(pid, "cwd"));
  if (!program)
    return failure(ErrorCode::kUnavailable,
                   "the program cannot write its own stacks, and {} is not installed to do it: {}", name,
                   python ? "pip install py-spy" : "it is in Debian's package elfutils");
  const UniqueFd input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!input) return system_failure("cannot open /dev/null", errno);
  std::vector<std::string> arguments{*program};
  if (python)
    arguments.insert(arguments.end(), {"dump", "--pid"});
  else
    arguments.insert(arguments.end(), {"-m", "-p"});
  arguments.push_back(std::to_string(pid));
  const bool pausing = way == Way::kPausing;
  if (!pausing) arguments.emplace_back("--nonblocking");
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  auto process = spawn({.program = *program,
                        .arguments = std::move(arguments),
                        .environment = environment_of_spies(),
                        .working_directory = "/",
                        .streams = {input.get(), output, output},
                        .descriptor_limit = limit});
  if (!process) return std::unexpected(process.error());
  UniqueFd target(was_stopped || !pausing ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  return Spy(name, *std::move(process), std::move(target));
}

// py-spy and eu-stack stop the process with a SIGSTOP. If py-spy or eu-stack is killed, the kernel delivers
// that SIGSTOP to the process, and the process stays stopped. So this destructor sends SIGCONT to the
// process.
Spy::~Spy() {
  if (!process_.pidfd || has_ended()) return;
  syscall(SYS_pidfd_send_signal, process_.pidfd.get(), SIGKILL, nullptr, 0);
  pollfd end{.fd = process_.pidfd.get(), .events = POLLIN, .revents = 0};
  poll(&end, 1, kDeathLimit);
  if (target_) syscall(SYS_pidfd_send_signal, target_.get(), SIGCONT, nullptr, 0);
}

bool Spy::has_ended() const {
  pollfd end{.fd = process_.pidfd.get(), .events = POLLIN, .revents = 0};
  return poll(&end, 1, 0) == 1;
}

bool Spy::are_stacks(const std::string& output) {
  return output.find("\nThread ") != std::string::npos || output.find("\n#0 ") != std::string::npos;
}

}  // namespace muster::agent
