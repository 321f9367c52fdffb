// Detects that a Python rank makes no progress. This works for ranks that report no steps: several looks at
// the rank's main thread must show the same frame, and the thread must have hardly run between them.
//
// StillWatch stops looking at a rank that has reported a step, or that has reported that it is idle or
// finished. From then on HangWatch is enough for this rank. StillWatch does not count time in which the ranks
// wait until their output is taken, or time in which the agent did not look.
//
// StillWatch only reports the rank. The launcher decides what follows: in its view, the job hangs only if no
// rank makes progress. The class makes decisions only, for one attempt, on one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"

namespace muster::agent {

// The result of one look at the main thread of a rank that runs Python.
struct MainThread {
  std::string frame;    // the innermost one, "read (train.py:7)"; empty: it could not be seen
  Duration cpu{};       // processor time since its start
  std::string why_not;  // why no look can see the frame, and what would help; empty: this or a later look can
};

// Returns the innermost frame of the main thread. `py_spy` is the output of `py-spy dump`. Returns "" if it
// has no such frame.
std::string innermost_frame(std::string_view py_spy);
// Returns the reason if `py-spy dump` can never show a frame of this process. Returns "" if the output has a
// frame, or if a later output may have one.
std::string why_not_seen(std::string_view py_spy);
// Returns the processor time of a thread; `schedstat` is the text of the thread's file of that name in /proc.
// Returns nullopt if the kernel does not count this time.
std::optional<Duration> processor_time(std::string_view schedstat);

class StillWatch {
 public:
  struct Limits {
    Duration hang{};    // zero: no looks
    bool ends = false;  // the user gave the limit: a rank that reaches it gets a hard stall
  };
  explicit StillWatch(Limits limits) : limits_(limits) {}

  void add(Rank rank) { watched_[rank] = {}; }
  void remove(Rank rank) { watched_.erase(rank); }
  // Call this if the ranks have waited until their output was taken. That wait does not count as standing
  // still: the time that a rank has stood still starts again from zero, for all ranks.
  void pause();
  // Returns the ranks to look at now. Pass the result of each look to seen().
  std::map<Rank, std::int32_t> due(const std::map<Rank, std::int32_t>& pids, TimePoint now);
  // Takes the result of a look at a rank. Returns a report if there is one: a soft stall, a hard stall, or
  // the remark that the rank has moved on after a stall. A stall is reported at most once as soft, and at
  // most once as hard.
  std::optional<wire::WorkerStalled> seen(Rank rank, const MainThread& thread, TimePoint now);

  // The main thread is looked at every tenth of the limit, but not more often than kLeastPause and not less
  // often than kMostPause. A look takes 10 ms of processor time.
  static constexpr Duration kLeastPause = std::chrono::seconds(1);
  static constexpr Duration kMostPause = std::chrono::seconds(60);

 private:
  struct Watched {
    MainThread last;
    TimePoint looked_at;
    Duration still{};  // how long it has been at this frame
    int looks = 0;     // how many looks in a row showed this frame
    bool told = false;
    bool told_hard = false;
  };
  Duration pause_between() const;

  Limits limits_;
  std::map<Rank, Watched> watched_;
  std::optional<TimePoint> next_look_;
};

}  // namespace muster::agent
