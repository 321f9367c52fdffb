// How long a job waits for missing nodes before its first attempt.
//
// The job waits for all nodes. If no further node has joined for `timeout`, the job starts with the nodes
// that are there, but only if these are enough for an attempt. If they are too few, the job waits longer,
// until kLimit after its beginning. Pure; the time is passed in.
#pragma once

#include <algorithm>
#include <optional>

#include "common/base/clock.h"

namespace muster::launcher {

class StartWait {
 public:
  static constexpr Duration kLimit = std::chrono::seconds(600);

  explicit StartWait(Duration timeout) : timeout_(timeout) {}
  void begin(TimePoint now) { limit_ = now + kLimit; }
  // Call when a node has joined. More nodes may join soon.
  void arrived(TimePoint now) {
    until_ = now + timeout_;
    over_ = false;
  }
  // Call when the first attempt has its nodes.
  void end() {
    until_.reset();
    limit_.reset();
  }
  void pass(TimePoint now) {
    if (!(until_ && *until_ <= now) && !is_hopeless(now)) return;
    over_ = true;
    until_.reset();
  }
  // True when the wait is over: the job starts if enough nodes are there.
  bool is_over() const { return over_; }
  // Returns true when nodes that have not joined count as missing for ever.
  bool is_hopeless(TimePoint now) const { return limit_ && *limit_ <= now; }
  std::optional<TimePoint> next() const {
    if (!until_ || !limit_) return until_ ? until_ : limit_;
    return std::min(*until_, *limit_);
  }

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(until_, limit_, over_);
  }

 private:
  Duration timeout_;
  std::optional<TimePoint> until_;
  std::optional<TimePoint> limit_;
  bool over_ = false;
};

}  // namespace muster::launcher
