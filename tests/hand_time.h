// A clock that a test moves by hand, for any code that takes net::Time.
//
// Nothing happens by itself: alarms ring inside advance(). For one thread; alarms may outlive the clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/net/time.h"

namespace muster {

class HandTime final : public net::Time {
 public:
  TimePoint now() const override { return now_; }
  std::unique_ptr<net::Alarm> make_alarm(std::function<void()> ring) override;
  // Alarms ring at their time, also those that another alarm sets.
  void advance(Duration step);
  // Nothing runs in the meantime: alarms ring afterwards, late.
  void jump(Duration step) {
    pass(step);
    advance(Duration::zero());
  }
  // As jump(), but the alarms wait for the next call, so that something else can happen first.
  void pass(Duration step) { now_ += step; }

 private:
  struct Set {
    std::function<void()> ring;
    std::optional<TimePoint> when;
  };
  class HandAlarm final : public net::Alarm {
   public:
    explicit HandAlarm(std::shared_ptr<Set> set) : set_(std::move(set)) {}
    ~HandAlarm() override { set_->when.reset(); }
    void set(std::optional<TimePoint> when) override { set_->when = when; }

   private:
    std::shared_ptr<Set> set_;
  };
  TimePoint now_{std::chrono::seconds(1000)};
  std::vector<std::shared_ptr<Set>> alarms_;
};

inline std::unique_ptr<net::Alarm> HandTime::make_alarm(std::function<void()> ring) {
  alarms_.push_back(std::make_shared<Set>(Set{std::move(ring), std::nullopt}));
  return std::make_unique<HandAlarm>(alarms_.back());
}

inline void HandTime::advance(Duration step) {
  const TimePoint end = now_ + step;
  for (;;) {
    std::shared_ptr<Set> next;
    for (const auto& each : alarms_) {
      if (each->when && *each->when <= end && (!next || *each->when < *next->when)) next = each;
    }
    if (!next) break;
    now_ = std::max(now_, *std::exchange(next->when, std::nullopt));
    next->ring();
  }
  now_ = end;
}

}  // namespace muster
