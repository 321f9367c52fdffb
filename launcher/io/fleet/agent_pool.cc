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

namespace {

// A process ends after this many jobs. All that the jobs have left in its memory is then gone. For remote
// agents, kMostJobs in agent/main.cc is the same number.
constexpr int kMostJobs = 100;
// When a process goes from one job to the next, the next job starts first. The end of the old job is handled
// this much later.
constexpr auto kEndPeriod = std::chrono::milliseconds(3);

}  // namespace

AgentPool::AgentPool(asio::any_io_executor executor, std::string agent_program, const rlimit& descriptors)
    : executor_(std::move(executor)),
      agent_program_(std::move(agent_program)),
      descriptors_(descriptors),
      end_timer_(executor_) {}

Expected<pid_t> AgentPool::hire(Job job) {
  const std::string words = fmt::format("{} {}", job.agent.node, job.agent.incarnation);
  for (;;) {
    std::vector<pid_t>& from = waiting_.empty() ? expected_ : waiting_;
    const bool is_new = from.empty();
    auto pid = is_new ? start() : Expected<pid_t>(from.back());
    if (!pid) return pid;
    if (!is_new) from.pop_back();
    Process& process = *processes_.at(*pid);
    const Status sent = send_template_message(process.door.native_handle(), words, {job.control, job.log});
    if (sent) {
      process.job.empty() ? take(process, std::move(job)) : void(process.next = std::move(job));
      return pid;
    }
    if (is_new) return std::unexpected(sent.error());
    processes_.erase(*pid);  // it has just ended
  }
}

void AgentPool::take(Process& process, Job job) {
  process.job = std::move(job.id);
  process.left = std::move(job.left);
  ++process.job_count;
}

void AgentPool::expect(const std::string& job_id) {
  for (const auto& [pid, process] : processes_) {
    if (process->job == job_id && process->job_count < kMostJobs) expected_.push_back(pid);
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
  const auto left = std::exchange(process.left, {});
  process.job.clear();
  std::erase(expected_, pid);
  if (process.next) {
    take(process, *std::exchange(process.next, std::nullopt));
    return tell_later(left);
  }
  if (process.job_count < kMostJobs) {
    waiting_.push_back(pid);
  } else {
    process.door.close();
  }
  left();
}

void AgentPool::tell_later(std::function<void()> left) {
  ended_.push_back(std::move(left));
  if (ended_.size() > 1) return;
  end_timer_.expires_after(kEndPeriod);
  end_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    for (const auto& each : std::exchange(ended_, {})) each();
  });
}

void AgentPool::hear_ends(const std::vector<ChildEnd>& ends) {
  for (const ChildEnd& end : ends) {
    processes_.erase(end.pid);
    std::erase(waiting_, end.pid);
    std::erase(expected_, end.pid);
  }
}

std::set<pid_t> AgentPool::pids() const {
  std::set<pid_t> all;
  for (const auto& [pid, process] : processes_) all.insert(pid);
  return all;
}

}  // namespace muster::launcher
