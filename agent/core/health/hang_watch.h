// Finds workers that hang, that is, workers that are alive but make no progress.
//
// Once per kLookInterval the agent reads the state of every process and passes it on. Reports of workers can
// arrive at any time.
// - A stopped process is reported after kStopLimit, and a frozen process after kFreezeLimit. A process in
//   uninterruptible sleep is reported after the limit that the user gave. These reports do not need Muster's
//   runtime in the worker.
// - After a heartbeat, another heartbeat must follow in time. This does not apply if every heartbeat so far
//   has said that the next one can be late.
// - After a step, another step must follow in time. A named section must end in time.
// - The usual time of a step or section is learned from all ranks of the node that are in the same group.
// - If the agent itself was delayed (kOverslept), nobody knows what the workers did in that time. So all
//   clocks start again.
// Decisions only, for one attempt; one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/health/worker_report.h"
#include "common/base/clock.h"
#include "common/wire/messages.h"

namespace muster::agent {

enum class ProcessState { kLive, kStopped, kFrozen, kUninterruptible };

// Learns how long something usually takes, and tells when it takes too long. Something that takes longer than
// soft() deserves a remark to the user. Something that takes longer than hard() takes too long.
// - As long as fewer than three durations were seen, hard() is the hang limit, and soft() is half of it.
// - After that, hard() is 30 times the longest duration, and at least two minutes. The factor is so high
//   because of busy machines: a process that gets 5 % of the processor time takes 20 times as long.
// - hard() is at most the hang limit, or three times the longest duration, whichever is more.
class UsualTime {
 public:
  void seen(Duration took);
  Duration soft(Duration hang_limit) const;
  Duration hard(Duration hang_limit) const;
  // Returns a text such as " (the longest so far took 1.2 s)". If fewer than three durations were seen,
  // returns "".
  std::string text() const;

 private:
  bool known() const { return count_ >= 3; }
  int count_ = 0;
  Duration longest_{};
};

class HangWatch {
 public:
  struct Limits {  // zero: not watched
    Duration heartbeat{};
    Duration hang{};
    Duration uninterruptible{};
  };
  static constexpr Duration kLookInterval = std::chrono::seconds(1);
  // If a look comes too late, and the delay is longer than this, all clocks start again.
  static constexpr Duration kOverslept = std::chrono::seconds(1);
  static constexpr Duration kStopLimit = std::chrono::seconds(3);
  static constexpr Duration kFreezeLimit = std::chrono::seconds(2);  // a freeze is noticed one look later

  explicit HangWatch(Limits limits) : limits_(limits) {}

  void add(Rank rank, TimePoint now);
  void remove(Rank rank) { watched_.erase(rank); }  // it has ended, or was told to stop
  void on(const Report& report, TimePoint now);
  // Call this before look() if something outside the workers has held them up since the last look. Then the
  // time since the last look does not count.
  void pause(TimePoint now);
  // Returns the stalls that have to be reported now. Before this call, pass all reports that wait in the
  // socket to on(). A stall is reported at most once as soft and once as hard. After the rank has made
  // progress, its next stall can be reported.
  std::vector<wire::WorkerStalled> look(const std::map<Rank, ProcessState>& states, TimePoint now);
  // Returns a soft stall for each rank that was stopped or frozen at the last look, even if only for a
  // moment. Report these stalls when other ranks hang, because a stopped rank may be the reason.
  std::vector<wire::WorkerStalled> stopped(TimePoint now) const;
  // Returns the time of the next look. If no worker is watched, returns nothing.
  std::optional<TimePoint> next_deadline() const;

 private:
  struct Wait {
    TimePoint since;
    bool told = false;
  };
  struct Section {
    std::string name;
    Wait wait;
  };
  struct Watched {
    std::int64_t newest_step = -1;
    std::string group;     // the group that made that step
    std::string activity;  // the last one that the rank reported
    ProcessState state = ProcessState::kLive;
    Wait stop;                      // since when it has been in `state`; valid unless `state` is kLive
    std::optional<Wait> heartbeat;  // for the next heartbeat; set by the first one
    std::optional<Wait> step;       // for the next step; empty: none is expected
    TimePoint step_paused;  // when the first of `sections` began; its time does not count for the step
    std::vector<Section> sections;  // the innermost last
    bool given_up = false;          // a hard stall was reported
  };
  struct Stall {
    bool hard = false;
    std::string what;
    TimePoint since;
  };

  // Keyed by group and, for sections, by name.
  using UsualTimes = std::map<std::pair<std::string, std::string>, UsualTime>;
  static void seen(UsualTimes& times, const Watched& rank, const std::string& name, Duration took);
  static UsualTime usual(const UsualTimes& times, const Watched& rank, const std::string& name);
  void step(Watched& rank, const wire::WorkerReported& report, TimePoint now);
  void enter(Watched& rank, const std::string& name, TimePoint since);
  void leave(Watched& rank, const std::string& name, TimePoint now);
  void correct_section(Watched& rank, const Report& report, TimePoint now);
  void start_afresh(TimePoint now);
  template <class Move>
  static void move_clocks(Watched& rank, Move move);
  static Stall stop_of(const Watched& rank, TimePoint now);
  static wire::WorkerStalled told(Rank id, const Watched& rank, const Stall& stall);
  std::optional<Stall> judge(Watched& rank, TimePoint now);
  std::optional<Stall> judge_progress(Watched& rank, TimePoint now);

  Limits limits_;
  std::map<Rank, Watched> watched_;
  UsualTimes step_times_;  // with "" as the name
  UsualTimes section_times_;
  TimePoint next_look_;
  TimePoint last_look_;
};

}  // namespace muster::agent
