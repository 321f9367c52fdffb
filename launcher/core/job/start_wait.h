// How long a job waits, before its first attempt, for nodes that have not come.
//
// All are waited for, until `timeout` after the last that came: then those that are there will do, if they
// are enough. Enough must have come within kLimit, after which nobody is waited for. Pure; the time is passed
// in.
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
  // A node came, and others may be close behind.
  void arrived(TimePoint now) {
    until_ = now + timeout_;
    over_ = false;
  }
  // The first attempt has its nodes.
  void end() {
    until_.reset();
    limit_.reset();
  }
  void pass(TimePoint now) {
    if (!(until_ && *until_ <= now) && !is_hopeless(now)) return;
    over_ = true;
    until_.reset();
  }
  // Nobody is waited for any more if those that are there are enough.
  bool is_over() const { return over_; }
  // Who has not come by now does not come.
  bool is_hopeless(TimePoint now) const { return limit_ && *limit_ <= now; }
  std::optional<TimePoint> next() const {
    if (!until_ || !limit_) return until_ ? until_ : limit_;
    return std::min(*until_, *limit_);
  }

  // What a journal keeps of it (journal/state.h).
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
