// Notices that a Python rank which reports no steps stands still: in several looks its main thread is at one
// line of the script, or in one function of a library, and it hardly runs between the looks.
//
// Once a rank has reported a step, or that it is idle or finished, StillWatch no longer looks at it:
// HangWatch knows its pace. The launcher decides what follows: it takes the job for hanging only if no rank
// gets on. Time that the ranks spend waiting for their output, or in which the agent did not look, does not
// count. Decisions only, for one attempt; one thread.
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

// A look at the main thread of a rank's Python.
struct MainThread {
  std::string frame;    // the innermost one, "read (train.py:7)"; empty: it could not be seen
  Duration cpu{};       // processor time since its start
  std::string why_not;  // why it can never be seen, and what would help; empty: it was seen, or may be later
};

// The innermost frame of the main thread in the output of `py-spy dump`; empty if it has none.
std::string innermost_frame(std::string_view py_spy);
// Why the output of `py-spy dump` will never have a frame; empty if it has one, or may have one later.
std::string why_not_seen(std::string_view py_spy);
// The processor time in a thread's /proc file `schedstat`; nullopt if the kernel does not count it.
std::optional<Duration> processor_time(std::string_view schedstat);

class StillWatch {
 public:
  struct Limits {
    Duration hang{};    // zero: no looks
    bool ends = false;  // the user gave the limit: a rank that reaches it hangs
  };
  explicit StillWatch(Limits limits) : limits_(limits) {}

  void add(Rank rank) { watched_[rank] = {}; }
  void remove(Rank rank) { watched_.erase(rank); }
  // Call if the ranks have waited for their output since the last look: that time does not count.
  void pause();
  // Returns the ranks to look at now. Pass the result of each look to seen().
  std::map<Rank, std::int32_t> due(const std::map<Rank, std::int32_t>& pids, TimePoint now);
  // Returns a stall to report, once as soft and once as hard, or the report that the rank has moved on after
  // a stall.
  std::optional<wire::WorkerStalled> seen(Rank rank, const MainThread& thread, TimePoint now);

  // Looks are a tenth of the limit apart, within these bounds. A look takes 10 ms of processor time.
  static constexpr Duration kLeastPause = std::chrono::seconds(1);
  static constexpr Duration kMostPause = std::chrono::seconds(60);

 private:
  struct Watched {
    MainThread last;
    TimePoint looked_at;
    Duration still{};  // how long it has been at this frame
    int looks = 0;     // in a row that showed it there
    bool told = false;
    bool told_hard = false;
  };
  Duration pause_between() const;

  Limits limits_;
  std::map<Rank, Watched> watched_;
  std::optional<TimePoint> next_look_;
};

}  // namespace muster::agent
