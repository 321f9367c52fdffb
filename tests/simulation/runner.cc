#include "tests/simulation/runner.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <new>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/file.h"
#include "launcher/core/text/words.h"

namespace muster::simulation {

namespace {

// Shared by the processes: the next seed, and the current seed of each process.
struct Shared {
  static constexpr std::size_t kMostProcesses = 256;
  std::atomic<std::uint64_t> next{0};
  std::array<std::atomic<std::uint64_t>, kMostProcesses> at{};
};

struct Child {
  pid_t pid = -1;
  UniqueFd output;
  std::string received;
};

int processor_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// In a new process: if the parent dies, for example by a test's timeout, the kernel kills this one too.
void end_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

std::string to_line(const SeedResult& result) {
  const nlohmann::json line{{"seed", result.seed},
                            {"failures", result.failures},
                            {"faults", result.faults},
                            {"virtual", result.virtual_seconds},
                            {"events", result.event_count}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

SeedResult from_line(std::string_view text) {
  const auto line = nlohmann::json::parse(text);
  SeedResult result;
  line.at("seed").get_to(result.seed);
  line.at("failures").get_to(result.failures);
  line.at("faults").get_to(result.faults);
  line.at("virtual").get_to(result.virtual_seconds);
  line.at("events").get_to(result.event_count);
  return result;
}

class Children {
 public:
  Children(std::uint64_t first, std::uint64_t count, const Size& size)
      : first_(first),
        count_(count),
        size_(size),
        memory_(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    CHECK(memory_ != MAP_FAILED, "no shared memory: errno {}", errno);
    shared_ = new (memory_) Shared;
  }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() { munmap(memory_, sizeof(Shared)); }

  void run(const std::function<void(const SeedResult&)>& done) {
    const auto wanted = std::min<std::uint64_t>(count_, static_cast<std::uint64_t>(processor_count()));
    children_.resize(std::min<std::size_t>(wanted, Shared::kMostProcesses));
    for (std::size_t i = 0; i < children_.size(); ++i) start(i);
    while (std::ranges::any_of(children_, [](const Child& each) { return each.pid != -1; })) {
      std::vector<pollfd> waiting;
      for (const Child& each : children_) waiting.push_back({each.output.get(), POLLIN, 0});
      if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) break;
      for (std::size_t i = 0; i < children_.size(); ++i) {
        if (waiting[i].revents != 0) hear(i, done);
      }
    }
  }

 private:
  void start(std::size_t index) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0, "no pipe: errno {}", errno);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    CHECK(pid >= 0, "no process: errno {}", errno);
    if (pid == 0) end_with(parent);
    if (pid == 0) work(index, ends[1]);
    close(ends[1]);
    children_[index].pid = pid;
    children_[index].output.reset(ends[0]);
    children_[index].received.clear();
  }

  [[noreturn]] void work(std::size_t index, int output) {
    for (std::uint64_t i = shared_->next++; i < count_; i = shared_->next++) {
      shared_->at[index] = first_ + i;
      const std::string line = to_line(run_seed(first_ + i, size_));
      if (!write_all(output, line, "results")) _exit(1);
    }
    _exit(0);
  }

  void hear(std::size_t index, const std::function<void(const SeedResult&)>& done) {
    Child& child = children_[index];
    std::array<char, 65536> bytes{};
    const ssize_t got = read(child.output.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) return;
    if (got > 0) {
      child.received.append(bytes.data(), static_cast<std::size_t>(got));
      for (std::size_t end = child.received.find('\n'); end != std::string::npos;
           end = child.received.find('\n')) {
        done(from_line(std::string_view(child.received).substr(0, end)));
        child.received.erase(0, end + 1);
      }
      return;
    }
    int status = 0;
    waitpid(std::exchange(child.pid, -1), &status, 0);
    child.output.reset();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    SeedResult crashed;
    crashed.seed = shared_->at[index];
    crashed.failures = {WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                                            : "its process ended"};
    done(crashed);
    start(index);
  }

  std::uint64_t first_;
  std::uint64_t count_;
  Size size_;
  void* memory_;
  Shared* shared_ = nullptr;
  std::vector<Child> children_;
};

// Runs the seed in a process of its own, since the seed may end it.
bool fails(const Script& script, std::uint64_t seed) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  CHECK(pid >= 0, "no process: errno {}", errno);
  if (pid == 0) end_with(parent);
  if (pid == 0) _exit(run_script(script, seed).failures.empty() ? 0 : 1);
  int status = 0;
  waitpid(pid, &status, 0);
  return status != 0;
}

}  // namespace

SeedResult run_script(const Script& script, std::uint64_t seed,
                      const std::function<void(const std::string&)>& trace) {
  Cluster cluster(script, seed, trace);
  const Outcome outcome = cluster.run();
  SeedResult result{.seed = seed,
                    .failures = {},
                    .faults = outcome.faults,
                    .virtual_seconds = launcher::in_seconds(outcome.length),
                    .event_count = outcome.event_count};
  for (const Finding& each : outcome.findings)
    result.failures.push_back(fmt::format("{:.6f} s: {}", launcher::in_seconds(each.at), each.text));
  return result;
}

SeedResult run_seed(std::uint64_t seed, const Size& size,
                    const std::function<void(const std::string&)>& trace) {
  return run_script(long_script(seed, size.nodes, size.ranks), seed, trace);
}

void run_seeds(std::uint64_t first, std::uint64_t count, const Size& size,
               const std::function<void(const SeedResult&)>& done) {
  Children(first, count, size).run(done);
}

Script shrink(Script smallest, const std::function<bool(const Script&)>& fails) {
  // Begins with the last fault: the earlier ones may have led to the failure.
  for (bool dropped = true; dropped;) {
    dropped = false;
    for (std::size_t i = smallest.faults.size(); i-- > 0;) {
      Script smaller = smallest;
      smaller.faults.erase(smaller.faults.begin() + static_cast<std::ptrdiff_t>(i));
      if (!fails(smaller)) continue;
      smallest = std::move(smaller);
      dropped = true;
    }
  }
  return smallest;
}

Script shrink(std::uint64_t seed, const Size& size) {
  return shrink(long_script(seed, size.nodes, size.ranks),
                [seed](const Script& script) { return fails(script, seed); });
}

}  // namespace muster::simulation
