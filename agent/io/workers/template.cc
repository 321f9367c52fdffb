#include "agent/io/workers/template.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "common/base/log.h"
#include "common/base/template_socket.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

using Kind = TemplateAnswer::Kind;

// A fork takes 1 ms, and 25 ms more for each GiB of memory that the program uses before init().
constexpr int kForkLimitMs = 2000;
// If a process does not end within this time, the kernel cannot kill it.
constexpr int kEndLimitMs = 2000;
// If a process closes its socket because it exits, it ends within this time.
constexpr int kLastBreathMs = 200;

// Gets the pid from the descriptor. It does not trust the pid in the template's message, because signals will
// be sent to this pid.
pid_t pid_of(int pidfd) {
  const auto info = read_file(fmt::format("/proc/self/fdinfo/{}", pidfd), 4096);
  constexpr std::string_view kField = "\nPid:\t";
  const std::size_t at = info ? info->find(kField) : std::string::npos;
  if (at == std::string::npos) return 0;
  const std::string_view rest = std::string_view(*info).substr(at + kField.size());
  return parse_number<pid_t>(rest.substr(0, rest.find('\n'))).value_or(0);
}

bool is_own_child(int pidfd) {
  siginfo_t info{};
  return waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

Expected<UniqueFd> open_file(const std::string& path, int flags) {
  UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!fd) return system_failure("cannot open " + path, errno);
  return fd;
}

}  // namespace

Template::Template(TemplateSpec spec, Process process, asio::posix::stream_descriptor socket,
                   asio::posix::stream_descriptor pidfd, std::string output_file)
    : spec_(std::move(spec)),
      pid_(process.pid),
      socket_(std::move(socket)),
      pidfd_(std::move(pidfd)),
      output_file_(std::move(output_file)) {}

Expected<std::shared_ptr<Template>> Template::execute(const asio::any_io_executor& executor,
                                                      TemplateSpec spec, const std::string& output_file,
                                                      rlimit descriptor_limit) {
  auto null = open_file("/dev/null", O_RDONLY);
  if (!null) return std::unexpected(null.error());
  if (Status made = make_directories(std::filesystem::path(output_file).parent_path()); !made)
    return std::unexpected(made.error());
  auto output = open_file(output_file, O_WRONLY | O_CREAT | O_APPEND);
  if (!output) return std::unexpected(output.error());
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_failure("cannot make a socket", errno);
  UniqueFd own(ends[0]);
  const UniqueFd other(ends[1]);
  Command command{.program = spec.program,
                  .arguments = spec.arguments,
                  .environment = entries_of(spec.environment),
                  .working_directory = spec.working_directory,
                  .streams = {null->get(), output->get(), output->get()},
                  .descriptor_limit = descriptor_limit,
                  .kept_fd = other.get()};
  command.environment.push_back(fmt::format("{}={}", kTemplateVariable, other.get()));
  auto process = spawn(command);
  if (!process) return std::unexpected(process.error());
  asio::posix::stream_descriptor socket(executor, own.release());
  asio::posix::stream_descriptor pidfd(executor, process->pidfd.release());
  return std::shared_ptr<Template>(
      new Template(std::move(spec), *std::move(process), std::move(socket), std::move(pidfd), output_file));
}

Template::~Template() {
  end();
}

std::string Template::first_answer() {
  const auto message = receive_template_message(socket_.native_handle(), 0);
  if (!message) {
    const std::string how = end(kLastBreathMs);
    return how.empty() ? "the program closed its socket"
                       : fmt::format("the program {} before init(); {} has its output", how, output_file_);
  }
  const auto answer = decode_template_answer(message->text);
  if (!answer) return answer.error().message();
  if (answer->kind == Kind::kRefused) return answer->text;
  takes_arguments_ = answer->text == kTakesArguments;
  if (answer->kind == Kind::kReady && (takes_arguments_ || answer->text == kTemplateVersion)) return "";
  return fmt::format("its runtime speaks version '{}' of the protocol, not {}", answer->text,
                     kTemplateVersion);
}

Expected<Process> Template::fork(const ForkOrder& order, const std::array<int, 3>& streams) {
  const int socket = socket_.native_handle();
  const Status sent = send_template_message(socket, encode(order), {streams[0], streams[1], streams[2]});
  if (!sent) return std::unexpected(sent.error());
  auto message = receive_template_message(socket, kForkLimitMs);
  if (!message) return std::unexpected(message.error());
  const auto answer = decode_template_answer(message->text);
  if (!answer) return std::unexpected(answer.error());
  if (answer->kind == Kind::kFailed) return failure(ErrorCode::kInternal, "{}", answer->text);
  if (answer->kind != Kind::kForked || message->fds.size() != 1 || !is_own_child(message->fds[0].get()))
    return failure(ErrorCode::kCorrupt, "its answer to an order is not a child of the agent's");
  const pid_t pid = pid_of(message->fds[0].get());
  if (pid <= 1) return failure(ErrorCode::kCorrupt, "its answer to an order is not a process id");
  // The child makes the same call, but it may not have run yet. If its group did not exist, a signal to the
  // group would be lost.
  setpgid(pid, pid);
  return Process{pid, std::move(message->fds[0])};
}

std::string Template::end(int wait_ms) {
  if (!pidfd_.is_open()) return "";
  pollfd ended{pidfd_.native_handle(), POLLIN, 0};
  const bool by_itself = poll(&ended, 1, wait_ms) > 0;
  kill(-pid_, SIGKILL);  // the whole group; until the template is reaped, no other process can have its pid
  std::string how;
  const bool has_ended = poll(&ended, 1, kEndLimitMs) > 0;
  if (const auto ending = has_ended ? reap(pidfd_.native_handle()) : std::nullopt) {
    if (by_itself && ending->signal != 0) how = fmt::format("was killed by signal {}", ending->signal);
    if (by_itself && ending->signal == 0) how = fmt::format("exited with code {}", ending->exit_code);
  } else if (has_ended) {
    log::warning("a debugger still holds template {}, which has ended", pid_);
  } else {
    log::error("template {} cannot be killed", pid_);
  }
  pidfd_.close();
  socket_.close();
  return how;
}

}  // namespace muster::agent
