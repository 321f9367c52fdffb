#include "agent/core/health/still_watch.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr int kLooks = 3;
// A thread that uses less than a hundredth of a processor counts as waiting or polling.
constexpr int kBusyShare = 100;

}  // namespace

// Returns the innermost frame of the main thread. In py-spy's output, a thread begins with a line such as
// `Thread 17 (idle): "MainThread"`. A line for each frame follows, the innermost one first.
std::string innermost_frame(std::string_view py_spy) {
  bool in_main = false;
  for (std::string_view line : split(py_spy, '\n')) {
    if (in_main) {
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      return std::string(line);
    }
    in_main = line.starts_with("Thread ") && line.ends_with("\"MainThread\"");
  }
  return {};
}

// If py-spy is not allowed to look at the process, returns the reason. Otherwise returns "": any other error
// of py-spy is temporary. For example, the stack changed during the dump, or the process has not reached the
// script yet.
std::string why_not_seen(std::string_view py_spy) {
  if (!py_spy.contains("ermission") || !innermost_frame(py_spy).empty()) return {};
  return fmt::format("py-spy says: {}", py_spy.substr(0, py_spy.find('\n')));
}

// If Linux does not count the time, the text is `0 0 0`. If the file does not exist, the text is empty.
std::optional<Duration> processor_time(std::string_view schedstat) {
  const auto time = parse_number<std::int64_t>(schedstat.substr(0, schedstat.find(' ')));
  return time && *time > 0 ? std::optional(from_ns(*time)) : std::nullopt;
}

Duration StillWatch::pause_between() const {
  return std::clamp(limits_.hang / 10, kLeastPause, kMostPause);
}

void StillWatch::pause() {
  for (auto& [rank, watched] : watched_) {
    watched.still = {};
    watched.looks = 0;
  }
}

std::map<Rank, std::int32_t> StillWatch::due(const std::map<Rank, std::int32_t>& pids, TimePoint now) {
  std::map<Rank, std::int32_t> wanted;
  if (limits_.hang <= Duration::zero() || (next_look_ && now < *next_look_)) return wanted;
  next_look_ = now + pause_between();
  for (const auto& [rank, pid] : pids) {
    if (watched_.contains(rank)) wanted[rank] = pid;
  }
  return wanted;
}

std::optional<wire::WorkerStalled> StillWatch::seen(Rank rank, const MainThread& thread, TimePoint now) {
  const auto found = watched_.find(rank);
  if (found == watched_.end() || thread.frame.empty()) return std::nullopt;
  Watched& watched = found->second;
  const Duration since_look = now - std::exchange(watched.looked_at, now);
  const MainThread before = std::exchange(watched.last, thread);
  wire::WorkerStalled stalled;
  stalled.rank = rank;
  if (thread.frame != before.frame || (thread.cpu - before.cpu) * kBusyShare > since_look) {
    const Duration stood = std::exchange(watched.still, Duration::zero());
    watched.looks = 1;
    watched.told_hard = false;
    if (!std::exchange(watched.told, false)) return std::nullopt;
    stalled.what = fmt::format("moved on after {:.0f} s", Seconds(stood).count());
    stalled.over = true;
    return stalled;
  }
  watched.still += std::min(since_look, 2 * pause_between());
  ++watched.looks;
  const bool hard = limits_.ends && watched.still >= limits_.hang;
  const bool known = hard ? watched.told_hard : watched.told;
  if (known || watched.looks < kLooks || watched.still < limits_.hang / 2) return std::nullopt;
  watched.told = true;
  watched.told_hard = hard;
  stalled.hard = hard;
  stalled.frame = thread.frame;
  stalled.what = fmt::format("has been in {} for {:.0f} s", thread.frame, Seconds(watched.still).count());
  stalled.since_ns = to_ns(now - watched.still);
  return stalled;
}

}  // namespace muster::agent
