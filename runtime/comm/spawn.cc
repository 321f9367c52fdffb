#include <ATen/Parallel.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <muster/comm/spawn.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "common/base/check.h"
#include "common/base/process.h"
#include "runtime/comm/address.h"
#include "runtime/comm/job_state.h"
#include "runtime/rank/uncaught.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kGrace{5};
constexpr std::chrono::milliseconds kSettle{50};
constexpr std::size_t kTextLimitBytes =
    4096;  // a write of this size to a pipe is atomic, and fits into an empty one

struct Child {
  pid_t pid = -1;
  UniqueFd handle;  // pidfd
  UniqueFd thrown;  // read end: a child that throws writes the time and the error
  bool running = true;
};

struct Failure {
  int rank = -1;
  int exit_code = -1;
  int signal = 0;
  std::int64_t thrown_at = 0;  // nanoseconds of the monotonic clock; 0: it ended without throwing
  std::string text;
};

std::size_t thread_count() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++count;
#if __has_feature(thread_sanitizer)
  --count;  // except the sanitizer's thread, which it restarts after a fork
#endif
  return count;
}

World world_of(int rank, int nprocs, std::uint16_t port) {
  auto world = read_world(
      "tcp://127.0.0.1:" + std::to_string(port), rank, nprocs, [](const char* name) -> const char* {
        // Takes the job's variables from the parent's environment, but not the parent's own place in the job.
        return std::string_view(name).starts_with("MUSTER_") && name != std::string_view("MUSTER_SOCKET")
                   ? std::getenv(name)
                   : nullptr;
      });
  if (!world) throw std::invalid_argument("spawn: " + world.error().message());
  return *world;
}

void tell_parent(int fd, const std::string& text) {
  const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::string record(sizeof now, '\0');
  std::memcpy(record.data(), &now, sizeof now);
  record += text.substr(0, kTextLimitBytes - sizeof now);
  [[maybe_unused]] const auto written = write(fd, record.data(), record.size());
}

// If at::set_num_threads() has made a thread pool in the parent, the child needs a pool of its own. This
// function creates it. Otherwise, the first thread of the child that asks for the number of threads would
// create it. And if two threads asked at the same time, torch would abort.
void renew_thread_pool() {
  std::thread([] { at::get_num_threads(); }).join();
}

[[noreturn]] void run_child(const std::function<void(Job&)>& function, const World& world, int listen_fd,
                            int thrown_fd) {
  // Rank 0 serves the store, so only rank 0 keeps the socket. Otherwise, if rank 0 died, connections to it
  // would wait and not be refused.
  if (world.rank != 0) close(listen_fd);
  renew_thread_pool();
  int code = 0;
  // The Job is declared outside of the try block, so that it is destroyed after this rank has sent its error
  // to the parent. When the Job is destroyed, its connections close, and the other ranks fail with errors of
  // their own.
  std::optional<Job> job;
  try {
    job = join(world, std::nullopt, NcclOptions(),
               world.rank == 0 ? std::optional<int>(listen_fd) : std::nullopt);
    function(*job);
  } catch (...) {
    tell_parent(thrown_fd, describe_current_exception());
    code = 1;
  }
  // A rank that has failed exits without destroying its Job, because it has nothing to finish with the other
  // ranks.
  if (code == 0) job.reset();
  std::fflush(nullptr);
  // Does not call exit(), because functions that the parent registered with atexit are for the parent.
  _exit(code);
}

// All children. The destructor kills and reaps those that still run.
class Children {
 public:
  ~Children() {
    signal_all(SIGKILL);
    for (Child& child : children_)
      if (child.running) reap(child);
  }

  void start(const std::function<void(Job&)>& function, int nprocs, const Listener& listener) {
    const pid_t parent = getpid();
    std::fflush(nullptr);  // else each child would print the parent's buffered text
    for (int rank = 0; rank < nprocs; ++rank) {
      const World world = world_of(rank, nprocs, listener.port);
      int ends[2];
      if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        throw std::runtime_error(fmt::format("spawn: cannot make a pipe: {}", std::strerror(errno)));
      Child child;
      child.thrown.reset(ends[0]);
      const UniqueFd write_end(ends[1]);
      child.pid = fork();
      if (child.pid < 0)
        throw std::runtime_error(fmt::format("spawn: cannot fork rank {}: {}", rank, std::strerror(errno)));
      if (child.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        run_child(function, world, listener.fd.get(), write_end.get());
      }
      child.handle.reset(static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0)));
      CHECK(child.handle, "pidfd_open({}): {}", child.pid, std::strerror(errno));
      children_.push_back(std::move(child));
    }
  }

  // Waits until one or more children have ended, but at most `timeout_ms`. Returns true if one of these
  // children has failed.
  bool wait(int timeout_ms) {
    std::vector<pollfd> handles;
    for (const Child& child : children_)
      handles.push_back({child.running ? child.handle.get() : -1, POLLIN, 0});
    if (poll(handles.data(), handles.size(), timeout_ms) <= 0) return false;
    const std::size_t before = failures_.size();
    for (std::size_t rank = 0; rank < children_.size(); ++rank)
      if (handles[rank].revents != 0) note(static_cast<int>(rank), reap(children_[rank]));
    return failures_.size() > before;
  }

  // Waits while children run, at most `longest`.
  void wait_for_all(std::chrono::milliseconds longest) {
    const auto deadline = std::chrono::steady_clock::now() + longest;
    while (any_running()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return;
      wait(static_cast<int>(left.count()));
    }
  }

  // Waits for children that are about to end. When a rank is killed, its connections close and other ranks
  // fail before the parent learns that it has ended.
  void wait_for_the_dying() {
    const auto deadline = std::chrono::steady_clock::now() + kGrace;
    const auto is_dying = [](const Child& child) { return child.running && is_exiting(child.pid); };
    while (std::ranges::any_of(children_, is_dying) && std::chrono::steady_clock::now() < deadline) wait(10);
  }

  // Finds the failure that caused all others. If a child has failed without an exception (for example, a
  // signal has killed it), returns the failure of that child. Otherwise returns the failure of the child that
  // threw first, even if that child is still running.
  Failure first_failure() {
    for (std::size_t rank = 0; rank < children_.size(); ++rank) {
      Failure failed{.rank = static_cast<int>(rank), .exit_code = 1, .text = {}};
      if (children_[rank].running && read_thrown(failed)) failures_.push_back(failed);
    }
    CHECK(!failures_.empty());
    return *std::ranges::min_element(failures_, {}, &Failure::thrown_at);
  }

  void stop() {
    signal_all(SIGTERM);
    wait_for_all(kGrace);
    signal_all(SIGKILL);
    while (any_running()) wait(-1);
  }

  bool any_running() const { return std::ranges::any_of(children_, &Child::running); }

 private:
  siginfo_t reap(Child& child) {
    siginfo_t info{};
    while (waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED) != 0 && errno == EINTR) {
    }
    child.running = false;
    return info;
  }

  void note(int rank, const siginfo_t& info) {
    const bool exited = info.si_code == CLD_EXITED;
    if (exited && info.si_status == 0) return;
    Failure failed{.rank = rank,
                   .exit_code = exited ? info.si_status : -1,
                   .signal = exited ? 0 : info.si_status,
                   .text = {}};
    read_thrown(failed);
    failures_.push_back(std::move(failed));
  }

  bool read_thrown(Failure& failed) {
    char record[kTextLimitBytes];
    const auto size =
        read(children_[static_cast<std::size_t>(failed.rank)].thrown.get(), record, sizeof record);
    if (size < static_cast<ssize_t>(sizeof failed.thrown_at)) return false;
    std::memcpy(&failed.thrown_at, record, sizeof failed.thrown_at);
    failed.text.assign(record + sizeof failed.thrown_at, record + size);
    return true;
  }

  void signal_all(int signal) {
    for (const Child& child : children_)
      if (child.running) kill(child.pid, signal);
  }

  std::vector<Child> children_;
  std::vector<Failure> failures_;
};

SpawnError error_of(const Failure& failed) {
  std::string what;
  if (failed.thrown_at != 0)
    what = "threw " + failed.text;
  else if (failed.signal == 0)
    what = fmt::format("exited with code {}", failed.exit_code);
  else
    what = fmt::format("was killed by signal {} ({})", failed.signal, strsignal(failed.signal));
  return SpawnError(fmt::format("rank {} {}", failed.rank, what), failed.rank, failed.exit_code,
                    failed.signal);
}

}  // namespace

void spawn(const std::function<void(Job&)>& function, int nprocs) {
  if (nprocs < 1)
    throw std::invalid_argument(fmt::format("spawn: nprocs is {}; it must be 1 or more", nprocs));
  if (thread_count() != 1)
    throw std::logic_error(
        "spawn: this process already has threads, and a fork would copy only one: "
        "call spawn before any tensor operation");
  auto listener = listen_on_loopback(0);
  if (!listener) throw std::runtime_error("spawn: " + listener.error().message());
  Children children;
  children.start(function, nprocs, *listener);
  listener->fd.reset();
  while (children.any_running()) {
    if (!children.wait(-1)) continue;
    // Waits for more failures. One rank may have failed only because another rank had failed before it, and
    // the parent may learn of the later failure first.
    children.wait_for_all(kSettle);
    children.wait_for_the_dying();
    const Failure first = children.first_failure();
    children.stop();
    throw error_of(first);
  }
}

}  // namespace muster
