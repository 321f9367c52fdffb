// The current state of each rank of the attempt. It has the rank's process, its steps per second, and its
// last report. The table is only for users who ask; no decision uses it. job/steps.h has the ranks' progress.
//
// Messages of the agents update the table. When the attempt changes, the table is cleared. Pure: the time is
// passed in.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

class RankTable {
 public:
  struct Entry {
    std::int32_t pid = 0;
    std::optional<std::int64_t> resumed_step;
    std::string section;  // the innermost one in the last heartbeat
    std::string said;     // that it stalls, has finished or has left
    TimePoint said_at;
    bool stalls = false;  // `said` is about a stall
    std::string end;      // how its process ended
    std::optional<TimePoint> last_report;
    std::optional<double> loss;  // of the newest step that reported one
    std::int64_t samples = 0;    // of a step on this rank; 0: not reported
    // Returns the mean of a window of 5 to 10 seconds. Before the second step, returns nullopt.
    std::optional<double> steps_per_second() const;

   private:
    friend class RankTable;
    struct Sample {
      TimePoint at;
      std::int64_t step = 0;
    };
    void add_step(std::int64_t reported, TimePoint now);
    std::optional<Sample> window_start_;
    std::optional<Sample> next_window_start_;
    std::optional<Sample> newest_;
  };

  // Handles a message. It is from the agent of a node that takes part in `attempt`.
  void on(const NodePlan& node, Attempt attempt, const wire::ToLauncher& message, TimePoint now);
  // nullptr: unknown.
  const Entry* find(Rank rank) const;
  // Returns how many ranks of the attempt have a process, or have had one.
  std::size_t started_count(Attempt attempt) const { return attempt == attempt_ ? started_count_ : 0; }

 private:
  void hear(const NodePlan& node, const wire::WorkersStarted& started, TimePoint now);
  void hear(const NodePlan& node, const wire::WorkerReported& reported, TimePoint now);
  void hear(const NodePlan& node, const wire::WorkerStalled& stalled, TimePoint now);
  void hear(const NodePlan& node, const wire::WorkerExited& exited, TimePoint now);
  template <class Other>
  void hear(const NodePlan&, const Other&, TimePoint) {}

  Attempt attempt_;
  std::map<Rank, Entry> entries_;
  std::size_t started_count_ = 0;
};

}  // namespace muster::launcher
