// The time limit of a job. It says when the notice is due, and when the time is up. It says each of these
// once.
//
// Pure; the time is passed in.
#pragma once

#include <algorithm>
#include <optional>

#include "common/base/clock.h"

namespace muster::launcher {

// Returns the time at which the notice of a time limit is due. This is `grace` before the limit, but never
// before half of the time.
inline TimePoint notice_time(TimePoint began, Duration time_limit, Duration grace) {
  return began + time_limit - std::min(grace, time_limit / 2);
}

class TimeLimit {
 public:
  TimeLimit(std::optional<Duration> limit, Duration grace) : limit_(limit), grace_(grace) {}
  void begin(TimePoint now) { began_ = now; }

  enum class Due { kNothing, kNotice, kEnd };
  Due take_due(TimePoint now) {
    if (!limit_ || told_ == Due::kEnd) return Due::kNothing;
    if (now >= end()) return told_ = Due::kEnd;
    if (told_ == Due::kNotice || now < notice_time(began_, *limit_, grace_)) return Due::kNothing;
    return told_ = Due::kNotice;
  }
  std::optional<TimePoint> next() const {
    if (!limit_ || told_ == Due::kEnd) return std::nullopt;
    return told_ == Due::kNotice ? end() : notice_time(began_, *limit_, grace_);
  }
  bool is_near() const { return told_ == Due::kNotice; }
  bool is_up() const { return told_ == Due::kEnd; }
  TimePoint end() const { return began_ + *limit_; }  // only if there is a limit

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(began_, told_);
  }

 private:
  std::optional<Duration> limit_;
  Duration grace_;
  TimePoint began_;
  Due told_ = Due::kNothing;
};

}  // namespace muster::launcher
