#include "launcher/io/fleet/agent_pool.h"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "common/base/template_socket.h"
#include "launcher/io/fleet/spawn_child.h"

namespace muster::launcher {

AgentPool::AgentPool(asio::any_io_executor executor, std::string agent_program, const rlimit& descriptors)
    : executor_(std::move(executor)), agent_program_(std::move(agent_program)), descriptors_(descriptors) {}

Expected<pid_t> AgentPool::hire(Job job) {
  const std::string words = fmt::format("{} {}", job.agent.node, job.agent.incarnation);
  for (;;) {
    const bool is_new = waiting_.empty();
    auto pid = is_new ? start() : Expected<pid_t>(waiting_.back());
    if (!pid) return pid;
    if (!is_new) waiting_.pop_back();
    Process& process = *processes_.at(*pid);
    const Status sent = send_template_message(process.door.native_handle(), words, {job.control, job.log});
    if (sent) {
      process.left = std::move(job.left);
      return pid;
    }
    if (is_new) return std::unexpected(sent.error());
    processes_.erase(*pid);  // it has just ended
  }
}

Expected<pid_t> AgentPool::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_failure("cannot make a socket", errno);
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const UniqueFd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) return system_failure("cannot open /dev/null", errno);
  const auto pid = spawn_child(
      {agent_program_, "--door", "3"},
      {.input = nothing.get(), .output = nothing.get(), .errors = nothing.get(), .third = theirs.get()},
      descriptors_);
  if (!pid) return pid;
  auto process =
      std::make_shared<Process>(Process{asio::posix::stream_descriptor(executor_, ours.release()), {}});
  processes_.emplace(*pid, std::move(process));
  watch(*pid);
  return pid;
}

void AgentPool::watch(pid_t pid) {
  const auto& process = processes_.at(pid);
  process->door.async_wait(
      asio::posix::stream_descriptor::wait_read,
      [this, pid, weak = std::weak_ptr(process)](const boost::system::error_code& error) {
        if (!error && weak.lock()) hear(pid);
      });
}

void AgentPool::hear(pid_t pid) {
  Process& process = *processes_.at(pid);
  const auto message = receive_template_message(process.door.native_handle(), 0);
  const bool ends = !message && message.error().code() != ErrorCode::kTimedOut;
  if (ends) return;  // SIGCHLD says how
  watch(pid);
  if (!message) return;  // a wait may end without a message
  waiting_.push_back(pid);
  if (const auto left = std::exchange(process.left, {})) left();
}

void AgentPool::hear_ends(const std::vector<ChildEnd>& ends) {
  for (const ChildEnd& end : ends) {
    processes_.erase(end.pid);
    std::erase(waiting_, end.pid);
  }
}

std::set<pid_t> AgentPool::pids() const {
  std::set<pid_t> all;
  for (const auto& [pid, process] : processes_) all.insert(pid);
  return all;
}

}  // namespace muster::launcher
