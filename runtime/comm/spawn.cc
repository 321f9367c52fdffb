#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <muster/spawn.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "common/base/check.h"
#include "runtime/comm/address.h"
#include "runtime/comm/job_state.h"
#include "runtime/control/uncaught.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kGrace{5};
constexpr std::size_t kTextLimitBytes =
    4096;  // a write of this size to a pipe is atomic, and fits into an empty one

struct Child {
  pid_t pid = -1;
  UniqueFd handle;  // pidfd
  UniqueFd text;    // read end: what it threw
  bool running = true;
};

struct Failure {
  int rank = -1;
  siginfo_t info{};
};

std::size_t thread_count() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

World world_of(int rank, int nprocs, std::uint16_t port) {
  auto world = read_world(
      "tcp://127.0.0.1:" + std::to_string(port), rank, nprocs, [](const char* name) -> const char* {
        // Of the parent's environment only what belongs to the job, not the parent's own place in it.
        return std::string_view(name).starts_with("MUSTER_") && name != std::string_view("MUSTER_SOCKET")
                   ? std::getenv(name)
                   : nullptr;
      });
  CHECK(world.has_value(), "{}", world.error().message());
  return *world;
}

[[noreturn]] void run_child(const std::function<void(Job&)>& function, const World& world, int listen_fd,
                            int text_fd, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  // Only the server may hold the socket: a connection to a dead server is then refused, not left waiting.
  if (world.rank != 0) close(listen_fd);
  int code = 0;
  try {
    Job job = join(world, std::nullopt, world.rank == 0 ? std::optional<int>(listen_fd) : std::nullopt);
    function(job);
  } catch (...) {
    const std::string text = describe_current_exception().substr(0, kTextLimitBytes);
    [[maybe_unused]] const auto written = write(text_fd, text.data(), text.size());
    code = 1;
  }
  std::fflush(nullptr);
  // Not exit(): what the parent registered with atexit is the parent's to run.
  _exit(code);
}

// All children, killed and reaped if something throws on the way.
class Children {
 public:
  ~Children() {
    signal_all(SIGKILL);
    for (Child& child : children_)
      if (child.running) reap(child);
  }

  void start(const std::function<void(Job&)>& function, int nprocs, const Listener& listener) {
    const pid_t parent = getpid();
    std::fflush(nullptr);  // else each child prints what the parent has buffered
    for (int rank = 0; rank < nprocs; ++rank) {
      const World world = world_of(rank, nprocs, listener.port);
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0)
        throw std::runtime_error(fmt::format("spawn: cannot make a pipe: {}", std::strerror(errno)));
      Child child;
      child.text.reset(ends[0]);
      const UniqueFd write_end(ends[1]);
      child.pid = fork();
      if (child.pid < 0)
        throw std::runtime_error(fmt::format("spawn: cannot fork rank {}: {}", rank, std::strerror(errno)));
      if (child.pid == 0) run_child(function, world, listener.fd.get(), write_end.get(), parent);
      child.handle.reset(static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0)));
      CHECK(child.handle, "pidfd_open({}): {}", child.pid, std::strerror(errno));
      children_.push_back(std::move(child));
    }
  }

  // Waits until a child ends or the deadline; the failed ones among those that ended, in no order.
  std::vector<Failure> wait(int timeout_ms) {
    std::vector<pollfd> handles;
    for (const Child& child : children_)
      handles.push_back({child.running ? child.handle.get() : -1, POLLIN, 0});
    std::vector<Failure> failures;
    if (poll(handles.data(), handles.size(), timeout_ms) <= 0) return failures;
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      if (handles[rank].revents == 0) continue;
      const siginfo_t info = reap(children_[rank]);
      if (info.si_code != CLD_EXITED || info.si_status != 0)
        failures.push_back({static_cast<int>(rank), info});
    }
    return failures;
  }

  void stop() {
    signal_all(SIGTERM);
    const auto deadline = std::chrono::steady_clock::now() + kGrace;
    while (any_running()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return;  // the destructor kills
      wait(static_cast<int>(left.count()));
    }
  }

  bool any_running() const {
    for (const Child& child : children_)
      if (child.running) return true;
    return false;
  }

  std::string text_of(int rank) const {
    std::string text(kTextLimitBytes, '\0');
    const auto size = read(children_[static_cast<std::size_t>(rank)].text.get(), text.data(), text.size());
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
  }

 private:
  siginfo_t reap(Child& child) {
    siginfo_t info{};
    while (waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED) != 0 && errno == EINTR) {
    }
    child.running = false;
    return info;
  }

  void signal_all(int signal) {
    for (const Child& child : children_)
      if (child.running) kill(child.pid, signal);
  }

  std::vector<Child> children_;
};

// Of several that were seen dead at once, one that was killed: the others' exceptions follow from its
// absence.
const Failure& first_of(const std::vector<Failure>& failures) {
  for (const Failure& failed : failures)
    if (failed.info.si_code != CLD_EXITED) return failed;
  return failures.front();
}

SpawnError error_of(const Failure& failed, const std::string& text) {
  const bool exited = failed.info.si_code == CLD_EXITED;
  std::string message = fmt::format("rank {} ", failed.rank);
  if (!text.empty())
    message += "threw " + text;
  else if (exited)
    message += fmt::format("exited with code {}", failed.info.si_status);
  else
    message +=
        fmt::format("was killed by signal {} ({})", failed.info.si_status, strsignal(failed.info.si_status));
  return SpawnError(message, failed.rank, exited ? failed.info.si_status : -1,
                    exited ? 0 : failed.info.si_status);
}

}  // namespace

void spawn(const std::function<void(Job&)>& function, int nprocs) {
  if (nprocs < 1)
    throw std::invalid_argument(fmt::format("spawn: nprocs is {}; it must be 1 or more", nprocs));
  if (thread_count() != 1)
    throw std::logic_error(
        "spawn: this process has threads already, and a fork would copy only one: call spawn before any "
        "tensor "
        "operation");
  auto listener = listen_on_loopback(0);
  if (!listener) throw std::runtime_error("spawn: " + listener.error().message());
  Children children;
  children.start(function, nprocs, *listener);
  listener->fd.reset();
  while (children.any_running()) {
    const std::vector<Failure> failures = children.wait(-1);
    if (failures.empty()) continue;
    const Failure first = first_of(failures);
    children.stop();
    throw error_of(first, children.text_of(first.rank));
  }
}

}  // namespace muster
