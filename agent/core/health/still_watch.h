// Detects that a Python rank which reports no steps makes no progress. That is the case if several looks at
// its main thread show the same frame, and the thread has hardly run between them.
//
// Once a rank has reported a step, or that it is idle or finished, StillWatch no longer looks at it: from
// then on HangWatch suffices. The launcher decides what follows: it takes the job for hanging only if no rank
// makes progress. Time in which the ranks wait until their output is taken does not count. Neither does time
// in which the agent did not look. Decisions only, for one attempt; one thread.
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

// The result of a look at the main thread of a rank's Python.
struct MainThread {
  std::string frame;    // the innermost one, "read (train.py:7)"; empty: it could not be seen
  Duration cpu{};       // processor time since its start
  std::string why_not;  // why no look can see the frame, and what would help; empty: this or a later look can
};

// Returns the innermost frame of the main thread in the output of `py-spy dump`, or "" if the output has
// none.
std::string innermost_frame(std::string_view py_spy);
// Returns why `py-spy dump` can never show a frame of this process. Returns "" if this output has a frame, or
// a later output may have one.
std::string why_not_seen(std::string_view py_spy);
// Returns the processor time from a thread's /proc file `schedstat`; nullopt if the kernel does not count it.
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
  // Call if the ranks have waited until their output was taken. All ranks start to count again from zero.
  void pause();
  // Returns the ranks to look at now. Pass the result of each look to seen().
  std::map<Rank, std::int32_t> due(const std::map<Rank, std::int32_t>& pids, TimePoint now);
  // Returns what to report, if anything: a soft stall, a hard stall, or that the rank has moved on after a
  // stall. Each stall is reported at most once as soft and at most once as hard.
  std::optional<wire::WorkerStalled> seen(Rank rank, const MainThread& thread, TimePoint now);

  // Looks are a tenth of the limit apart, within these bounds. A look takes 10 ms of processor time.
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
