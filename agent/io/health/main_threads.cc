#include "agent/io/health/main_threads.h"

#include <array>
#include <cerrno>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "common/base/file.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr std::size_t kMaxOutputBytes = 64 << 10;
constexpr int kMostCalls = 5;  // of MainThreads::look(), once a second; after that a look is abandoned

std::string output_of(const UniqueFd& file) {
  std::string text(kMaxOutputBytes, '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

// Returns the processor time of the process's main thread.
std::optional<Duration> cpu_of(pid_t pid) {
  return processor_time(read_file(fmt::format("/proc/{0}/task/{0}/schedstat", pid), 256).value_or(""));
}

}  // namespace

std::map<Rank, MainThread> MainThreads::look(const std::map<Rank, std::int32_t>& pids) {
  std::map<Rank, MainThread> seen;
  for (auto next = looks_.begin(); next != looks_.end();) {
    auto& [rank, look] = *next;
    const bool ended = look.spy.has_ended();
    if (!ended && ++look.calls < kMostCalls) {
      ++next;
      continue;
    }
    const std::string output = output_of(look.output);
    MainThread& thread = seen[rank];
    const auto cpu = cpu_of(look.pid);
    thread.frame = ended && cpu ? innermost_frame(output) : "";
    thread.cpu = cpu.value_or(Duration::zero());
    thread.why_not = why_not_seen(output);
    next = looks_.erase(next);
  }
  for (const auto& [rank, pid] : pids) {
    if (looks_.contains(rank) || !Spy::runs_python(pid)) continue;
    if (!cpu_of(pid)) {
      seen[rank].why_not = "the kernel does not count the processor time of threads";
      continue;
    }
    UniqueFd output(memfd_create("py-spy", MFD_CLOEXEC));
    auto spy = output ? Spy::start(pid, output.get(), Spy::Way::kInPassing)
                      : Expected<Spy>(system_failure("cannot make a file in memory", errno));
    if (spy) {
      looks_.emplace(rank, Look{*std::move(spy), std::move(output), pid});
    } else {
      seen[rank].why_not = spy.error().message();
    }
  }
  return seen;
}

}  // namespace muster::agent
