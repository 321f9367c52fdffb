// Decides whether and when a failed attempt is repeated. There is a budget of restarts for each time window,
// and a limit for identical failures in a row. Between restarts without progress there is a back-off, that
// is, a pause.
//
// - A failure from outside, such as a kill, never counts as identical. Its attempt is repeated at once. If
//   the last three attempts all lived less than kShortLife, a back-off comes first.
// - An attempt may be unable to start, because a disk is full or a host refuses connections. Such an attempt
//   is repeated after a back-off. If only one node refused, the back-off begins with the second refusal in a
//   row.
// - Progress is a checkpoint or a step beyond all earlier ones. Most programs report neither, so missing
//   progress alone proves nothing.
// - If a full window has passed since the last restart, all counts of failures start again from zero.
// - Nodes that are lost together need one restart only. So a loss does not count if it comes within kTogether
//   after a restart, and before a worker was started.
// Pure: the time is passed in, and the random part of a back-off follows from the seed.
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

// Facts about a failure. The policy uses these to decide.
struct Failure {
  bool from_outside = false;
  std::string what;                    // the program's own failure: class, code or signal, exception
  bool has_text = false;               // `what` includes an exception
  Duration lived{};                    // from the start of the workers to the failure
  std::optional<std::int64_t> step{};  // newest step of the rank to blame
  bool committed = false;              // a checkpoint since the previous failure
  bool could_not_start = false;        // no worker of the attempt ran
  bool refused_by_node = false;        // it could not start because one node refused; another node may work
  // If the failure came early and before the first step, this is `what` and all text of the failure.
  // Otherwise it is empty.
  std::string at_start{};
  // If a node was lost after its agent had joined, but before any worker of the attempt was started, this is
  // the time of the loss.
  std::optional<TimePoint> lost_before_start{};
};
Failure as_failure(const Verdict& verdict, bool committed);

class RestartPolicy {
 public:
  static constexpr Duration kMostDelay = std::chrono::seconds(30);
  // If each of the last three attempts lived for less than kShortLife, there is a back-off, that is, a pause
  // before the restart. But this is done only for failures from outside the program, such as a lost node.
  static constexpr Duration kShortLife = std::chrono::seconds(2);
  // An attempt that lived this long has done some work, so no back-off follows. If its failure has no text,
  // the failure does not count as identical to another one.
  static constexpr Duration kLongLife = std::chrono::seconds(30);

  // If several nodes fail for the same reason, they are lost within this time of each other. A Docker engine
  // that restarts kills containers after 10 s, and an agent counts as silent after 10 s. If a node joins and
  // is lost again and again, it uses up one restart per kTogether.
  static constexpr Duration kTogether = std::chrono::seconds(10);

  explicit RestartPolicy(const RestartLimits& limits) : limits_(limits), rng_(limits.seed) {}
  // Decides about one failure. If the decision is a restart with `counted`, that restart uses up a part of
  // the budget.
  RestartDecision on_failure(const Failure& failure, TimePoint now);
  std::int32_t used(TimePoint now) const;  // restarts within the window

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(rng_, restarts_, newest_step_, last_own_failure_, last_at_start_, same_at_start_, same_failures_,
            fruitless_failures_, short_lives_, failed_starts_);
  }
  // Returns whether the fields that were read are consistent.
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
