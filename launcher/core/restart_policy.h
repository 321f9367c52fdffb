// Whether a failed attempt is repeated, and when: a budget per time window, a stop when the same failure
// comes again and again, a back-off between restarts that lead nowhere.
//
// Progress is a checkpoint that was committed since the failure before. A failure a window or more after the
// last restart is the first again. The first restart, and one after progress, is immediate. Pure: plain
// values, the time is passed in, the jitter follows from the seed.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "launcher/core/verdict.h"

namespace muster::launcher {

struct RestartLimits {
  std::int32_t max_restarts = 0;  // within `window`
  Duration window = std::chrono::hours(1);
  Duration delay{};                    // before the second restart in a row; doubles, kMostDelay at most
  std::int32_t no_progress_limit = 0;  // the same failure so many times in a row; zero: no limit
  std::uint64_t seed = 0;
};

struct RestartDecision {
  enum class Kind { kRestart, kBudgetIsSpent, kNoProgress } kind = Kind::kRestart;
  Duration delay{};
  std::string reason;
};

// What makes two failures the same: class, rank or node, its step, code or signal, first line of the message.
// The rank does not count where the program left by itself with an exit code.
std::string fingerprint(const Verdict& verdict);

class RestartPolicy {
 public:
  static constexpr Duration kMostDelay = std::chrono::seconds(30);

  explicit RestartPolicy(const RestartLimits& limits) : limits_(limits), rng_(limits.seed) {}
  // Of one failure. A restart that is decided counts from then on.
  RestartDecision on_failure(const std::string& fingerprint, bool progressed, TimePoint now);
  std::int32_t used(TimePoint now) const;  // restarts within the window

 private:
  Duration next_delay();

  RestartLimits limits_;
  std::mt19937_64 rng_;
  std::vector<TimePoint> restarts_;
  std::string last_fingerprint_;
  std::int32_t same_failures_ = 0;       // in a row
  std::int32_t fruitless_restarts_ = 0;  // in a row
};

}  // namespace muster::launcher
