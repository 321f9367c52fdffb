#include "launcher/commands/conversation.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "launcher/io/view/control_socket.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

Expected<UniqueFd> connect_to(const JobEntry& job) {
  const auto address = control_address(job.record.directory);
  if (!address) return std::unexpected(address.error());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return system_failure("cannot make a socket", errno);
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(name.sun_path, address->path.c_str(), sizeof name.sun_path - 1);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) return socket;
  const int error = errno;
  if (error == EACCES || error == EPERM)
    return failure(ErrorCode::kPermission, "{} belongs to {}: only that user may ask its launcher",
                   job.record.job_id, job.record.launcher.user);
  return system_failure(fmt::format("cannot reach the launcher of {}: {}/control.sock", job.record.job_id,
                                    job.record.directory),
                        error);
}

// Returns which processes of a lost job still run, as far as this process can see them.
std::string survivors_of(const JobEntry& job) {
  const auto processes = processes_by_job();
  const auto found = processes.find(job.record.job_id);
  if (found == processes.end()) return "none of its processes runs on this machine";
  return fmt::format(
      "{} of its processes still run{} on this machine, until --controller-grace (30 s) has passed",
      found->second.size(), found->second.size() == 1 ? "s" : "");
}

}  // namespace

std::string end_of(const JobEntry& job) {
  switch (job.state) {
    case JobEntry::State::kRunning: return "is still running";
    case JobEntry::State::kSucceeded: return "succeeded";
    case JobEntry::State::kFailed:
    case JobEntry::State::kStopped:
      return fmt::format("{} with exit code {}: {}", name_of(job.state), job.exit_code.value_or(-1),
                         cause_of_end(job.cause));
    case JobEntry::State::kCancelled:
      return fmt::format("was cancelled with exit code {}: {}", job.exit_code.value_or(-1),
                         cause_of_end(job.cause));
    case JobEntry::State::kLost:
      return fmt::format("is lost: its launcher (process {}) is gone and left no report; {}",
                         job.record.launcher.pid, survivors_of(job));
    case JobEntry::State::kElsewhere:
      return fmt::format("runs, or ran, on host {}: run this command there", job.record.launcher.host);
  }
  return "";
}

Expected<Conversation> Conversation::ask(const JobEntry& job, std::string_view request) {
  if (!job.may_run())
    return failure(ErrorCode::kNotFound, "{} is not running: it {}", job.record.job_id, end_of(job));
  auto socket = connect_to(job);
  // If the job runs elsewhere, its socket works only if this process and the job are in two containers of the
  // same machine.
  if (!socket && job.state == JobEntry::State::kElsewhere)
    return failure(ErrorCode::kUnavailable, "{} {}", job.record.job_id, end_of(job));
  if (!socket) return std::unexpected(socket.error());
  if (Status sent = write_all(socket->get(), std::string(request) + "\n", "control.sock"); !sent)
    return std::unexpected(sent.error());
  return Conversation(std::move(*socket));
}

Expected<std::optional<std::string>> Conversation::next(Duration limit) {
  const TimePoint deadline = Clock::now() + limit;
  for (;;) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd readable{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    const int ready = left > 0 ? poll(&readable, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return failure(ErrorCode::kTimedOut, "the launcher does not answer");
    char bytes[65536];
    const ssize_t got = read(socket_.get(), bytes, sizeof bytes);
    if (got < 0) return system_failure("cannot read the launcher's answer", errno);
    if (got == 0) return std::optional<std::string>();
    buffer_.append(bytes, static_cast<std::size_t>(got));
  }
}

}  // namespace muster::launcher
