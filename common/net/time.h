// The interface through which Muster's programs get the current time, and a call at a later time. The
// simulator replaces it.
//
// A program makes one SystemTime, and uses it on one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "common/base/clock.h"
#include "common/net/asio.h"

namespace muster::net {

// Calls a function once, when a certain time has come. If another time is set, or if the alarm is destroyed,
// the call does not come.
class Alarm {
 public:
  virtual ~Alarm() = default;
  // Sets the time of the call. If it is nullopt, there will be no call. If it is in the past, the function is
  // called soon, but never inside set().
  virtual void set(std::optional<TimePoint> when) = 0;
};

class Time {
 public:
  virtual ~Time() = default;
  virtual TimePoint now() const = 0;
  virtual std::unique_ptr<Alarm> make_alarm(std::function<void()> ring) = 0;
};

class SystemTime final : public Time {
 public:
  explicit SystemTime(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  TimePoint now() const override { return Clock::now(); }
  std::unique_ptr<Alarm> make_alarm(std::function<void()> ring) override;

 private:
  asio::any_io_executor executor_;
};

}  // namespace muster::net
