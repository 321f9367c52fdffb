// Which worker lives and does not get on: the rules of hang detection, in one place.
//
// The agent looks at every process once a kLookInterval and passes the states on; reports of workers come as
// they arrive. A stopped or frozen process is told after kStopLimit, with or without our runtime, and one in
// uninterruptible sleep after the limit that the user gave. Heartbeats
// are missed once there was one that may not be late, steps once there were some, named sections from the
// start. How long a step or section may take is learned, over all ranks of the node that train in one group.
// An agent that overslept knows nothing about its workers: everyone gets a fresh start. Decisions only, of
// one attempt; one thread.
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

// How long something takes, and from when on it takes too long. Until it was seen three times, half of the
// hang limit is worth telling and all of it is too long. Then too long is 30 times the longest, two minutes
// at least: a machine of which 5 % is left to us is 20 times slower, and that is no hang. It stays within the
// hang limit unless that comes near what is usual.
class UsualTime {
 public:
  void seen(Duration took);
  Duration soft(Duration hang_limit) const;
  Duration hard(Duration hang_limit) const;
  // "" until it is known, then " (the longest so far took 1.2 s)".
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
  static constexpr Duration kOverslept = std::chrono::seconds(1);  // a look so late starts all clocks anew
  static constexpr Duration kStopLimit = std::chrono::seconds(3);
  static constexpr Duration kFreezeLimit = std::chrono::seconds(2);  // a freeze is noticed a look later

  explicit HangWatch(Limits limits) : limits_(limits) {}

  void add(Rank rank, TimePoint now);
  void remove(Rank rank) { watched_.erase(rank); }  // it has ended, or has been told to
  void on(const Report& report, TimePoint now);
  // Workers were held up since the last look, by no fault of theirs: that time does not count. To be called
  // before a look.
  void pause(TimePoint now);
  // The stalls that are to be told: each one once soft and once hard, until the rank gets on. Reports that
  // wait in the socket must have been passed to on() before.
  std::vector<wire::WorkerStalled> look(const std::map<Rank, ProcessState>& states, TimePoint now);
  // The soft stalls of those that were stopped or frozen at the last look, however short a time ago: to be
  // told when others are found to hang, for a stopped rank is why they do.
  std::vector<wire::WorkerStalled> stopped(TimePoint now) const;
  // The next look; none while nobody is watched.
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
    std::string group;     // in which that was made
    std::string activity;  // as it said last
    ProcessState state = ProcessState::kLive;
    Wait stop;                      // since when it is in that state; valid unless that is kLive
    std::optional<Wait> heartbeat;  // for the next one, from the first one on
    std::optional<Wait> step;       // for the next one, until the rank says that no more will follow
    TimePoint step_paused;  // when the first of `sections` was entered: time in them is not the step's
    std::vector<Section> sections;  // the innermost last
    bool given_up = false;          // a hard stall has been told
  };
  struct Stall {
    bool hard = false;
    std::string what;
    TimePoint since;
  };

  // By group, and of sections by group and name.
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
  UsualTimes step_times_;  // the name is empty
  UsualTimes section_times_;
  TimePoint next_look_;
  TimePoint last_look_;
};

}  // namespace muster::agent
