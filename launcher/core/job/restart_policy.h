// Whether a failed attempt is repeated, and when: a budget per time window, a stop when the program fails in
// the same way again and again, a back-off between restarts that lead nowhere.
//
// A failure from outside, such as a kill, is no repeated failure, and its attempt is repeated at once. An
// attempt that could not start, because of a full disk or of a host that refuses connections, is repeated
// after a back-off; one that a single node refused, from the second refusal in a row on. Progress is a
// checkpoint or a step beyond all earlier ones; most programs report neither, so that the absence of progress
// alone proves nothing. A failure that comes a window or more after the last restart counts as the first.
// Nodes that are lost together belong to one restart: a loss that follows a restart within kTogether, before
// a worker was started, is not counted. Pure: the time is passed in, the jitter follows from the seed.
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
  Duration delay{};                    // the first of a back-off; doubles, kMostDelay at most
  std::int32_t no_progress_limit = 0;  // the same failure so many times in a row; zero: no limit
  std::uint64_t seed = 0;
};

struct RestartDecision {
  enum class Kind { kRestart, kBudgetIsSpent, kNoProgress } kind = Kind::kRestart;
  Duration delay{};
  std::string reason;
  bool counted = true;  // else it belongs to the restart before
};

// How an attempt failed, as far as the policy asks.
struct Failure {
  bool from_outside = false;
  std::string what;       // the program's own failure: its class, its code or signal, its exception
  bool has_text = false;  // there is an exception
  Duration lived{};       // from the start of the workers to the failure
  std::optional<std::int64_t> step{};  // the newest of the rank to blame
  bool committed = false;              // since the failure before
  bool could_not_start = false;        // nothing of the attempt ran
  bool refused_by_node = false;        // it could not start because one node refused: another may do
  // `what` with all text of the failure, if it came early and before the first step; else empty.
  std::string at_start{};
  // When a node was lost whose agent had joined, if no worker of the attempt had been started.
  std::optional<TimePoint> lost_before_start{};
};
Failure as_failure(const Verdict& verdict, bool committed);

class RestartPolicy {
 public:
  static constexpr Duration kMostDelay = std::chrono::seconds(30);
  // Three attempts in a row that lived no longer are a reason to slow down, whatever ended them.
  static constexpr Duration kShortLife = std::chrono::seconds(2);
  // An attempt that lived so long did something: it is no loop that should be slowed, and its failure is not
  // known to be the same as another without a text to compare.
  static constexpr Duration kLongLife = std::chrono::seconds(30);

  // Nodes that go for one reason are lost within that of each other: a Docker engine that restarts kills
  // containers after 10 s, and an agent counts as silent after as long. A node that joins and is lost over
  // and over again uses up a restart each time that this has passed.
  static constexpr Duration kTogether = std::chrono::seconds(10);

  explicit RestartPolicy(const RestartLimits& limits) : limits_(limits), rng_(limits.seed) {}
  // Decides about one failure. A restart that it decides counts against the budget from then on, if it says
  // so.
  RestartDecision on_failure(const Failure& failure, TimePoint now);
  std::int32_t used(TimePoint now) const;  // restarts within the window

  // What a journal keeps of it (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(rng_, restarts_, newest_step_, last_own_failure_, last_at_start_, same_at_start_, same_failures_,
            fruitless_failures_, short_lives_, failed_starts_);
  }
  // Whether these fields, which were read, can be its own.
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
  // About the newest failures in a row.
  std::string last_own_failure_;
  std::string last_at_start_;
  bool same_at_start_ = false;
  std::int32_t same_failures_ = 0;
  std::int32_t fruitless_failures_ = 0;  // the program's own
  std::int32_t short_lives_ = 0;
  std::int32_t failed_starts_ = 0;
};

}  // namespace muster::launcher
