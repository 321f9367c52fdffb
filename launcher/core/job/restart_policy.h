// Decides whether and when a failed attempt is repeated: a budget per time window, a limit for identical
// failures in a row, and a back-off between restarts without progress.
//
// - A failure from outside, such as a kill, never counts as identical. Its attempt is repeated at once. If
//   the last three attempts all lived less than kShortLife, a back-off comes first.
// - An attempt that could not start (full disk, host refuses connections) is repeated after a back-off;
//   if only one node refused, the back-off begins with the second refusal in a row.
// - Progress is a checkpoint or a step beyond all earlier ones. Most programs report neither, so
//   missing progress alone proves nothing.
// - If a full window has passed since the last restart, all counts of failures start again from zero.
// - Nodes lost together belong to one restart: a loss within kTogether after a restart, before a worker was
//   started, does not count.
// Pure: the time is passed in, the jitter follows from the seed.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "launcher/core/job/counts.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

struct RestartLimits {
  std::int32_t max_restarts = 0;  // within `window`
  Duration window = std::chrono::hours(1);
  Duration delay{};                    // first delay of a back-off; doubles up to kMostDelay
  std::int32_t no_progress_limit = 0;  // identical failures in a row; zero: no limit
  std::uint64_t seed = 0;
};

struct RestartDecision {
  enum class Kind { kRestart, kBudgetIsSpent, kNoProgress } kind = Kind::kRestart;
  Duration delay{};
  std::string reason;
  bool counted = true;  // false: the failure belongs to the previous restart
};

// The facts about a failure that the policy uses.
struct Failure {
  bool from_outside = false;
  std::string what;                    // the program's own failure: class, code or signal, exception
  bool has_text = false;               // `what` includes an exception
  Duration lived{};                    // from the start of the workers to the failure
  std::optional<std::int64_t> step{};  // newest step of the rank to blame
  bool committed = false;              // a checkpoint since the previous failure
  bool could_not_start = false;        // no worker of the attempt ran
  bool refused_by_node = false;        // it could not start because one node refused; another node may work
  // `what` and all text of the failure, if it came early and before the first step; else empty.
  std::string at_start{};
  // When a node was lost after its agent had joined, if no worker of the attempt had been started.
  std::optional<TimePoint> lost_before_start{};
};
Failure as_failure(const Verdict& verdict, bool committed);

class RestartPolicy {
 public:
  static constexpr Duration kMostDelay = std::chrono::seconds(30);
  // A failure from outside leads to a back-off if the last three attempts all lived for less than this.
  static constexpr Duration kShortLife = std::chrono::seconds(2);
  // An attempt that lived this long did some work, so it needs no back-off. Its failure does not count as
  // identical to another one if it has no text to compare.
  static constexpr Duration kLongLife = std::chrono::seconds(30);

  // Nodes that fail for one reason are lost within this time of each other: a restarting Docker engine kills
  // containers after 10 s, and an agent counts as silent after 10 s. A node that repeatedly joins and is lost
  // uses one restart per kTogether.
  static constexpr Duration kTogether = std::chrono::seconds(10);

  explicit RestartPolicy(const RestartLimits& limits) : limits_(limits), rng_(limits.seed) {}
  // Decides about one failure. A restart with `counted` counts towards the budget from then on.
  RestartDecision on_failure(const Failure& failure, TimePoint now);
  std::int32_t used(TimePoint now) const;  // restarts within the window

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(rng_, restarts_, newest_step_, last_own_failure_, last_at_start_, same_at_start_, same_failures_,
            fruitless_failures_, short_lives_, failed_starts_);
  }
  // Whether the fields that were read are consistent.
  bool restored() const {
    return is_count(same_failures_) && is_count(fruitless_failures_) && is_count(short_lives_) &&
           is_count(failed_starts_);
  }

 private:
  bool belongs_to_last_restart(const Failure& failure) const;
  void count(const Failure& failure);
  Duration delay_after(const Failure& failure);
  Duration back_off(std::int32_t doublings);

  RestartLimits limits_;
  std::mt19937_64 rng_;
  std::vector<TimePoint> restarts_;
  std::optional<std::int64_t> newest_step_;
  // Facts about the newest failures in a row.
  std::string last_own_failure_;
  std::string last_at_start_;
  bool same_at_start_ = false;
  std::int32_t same_failures_ = 0;
  std::int32_t fruitless_failures_ = 0;  // failures of the program itself, without progress
  std::int32_t short_lives_ = 0;
  std::int32_t failed_starts_ = 0;
};

}  // namespace muster::launcher
