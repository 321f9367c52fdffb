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
constexpr int kMostCalls = 5;  // at one a second

std::string output_of(const UniqueFd& file) {
  std::string text(kMaxOutputBytes, '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

// The time that the main thread has run, from the scheduler; zero if the kernel does not count it.
Duration cpu_of(pid_t pid) {
  const std::string counts = read_file(fmt::format("/proc/{0}/task/{0}/schedstat", pid), 256).value_or("");
  return from_ns(parse_number<std::int64_t>(counts.substr(0, counts.find(' '))).value_or(0));
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
    thread.frame = ended ? innermost_frame(output) : "";
    thread.cpu = cpu_of(look.pid);
    // Other errors pass: the process changed its stack meanwhile, or it is not yet in the script.
    if (output.contains("ermission")) thread.why_not = "py-spy says: " + output.substr(0, output.find('\n'));
    next = looks_.erase(next);
  }
  for (const auto& [rank, pid] : pids) {
    if (looks_.contains(rank) || !Spy::runs_python(pid)) continue;
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
