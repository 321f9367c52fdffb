// Calls a function periodically until it is stopped, for example to show progress.
#pragma once

#include <functional>

#include "common/base/clock.h"
#include "common/net/asio.h"

namespace muster::launcher {

// Use this object on one thread only. It must outlive the call of the io_context's run().
class Periodic {
 public:
  Periodic(asio::io_context& context, Duration period, std::function<void()> tick)
      : timer_(context), period_(period), tick_(std::move(tick)) {}
  // The first tick is one period from now.
  void start() {
    timer_.expires_after(period_);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error || stopped_) return;
      tick_();
      if (!stopped_) start();
    });
  }
  // After stop(), this object does not call its function any more, even if a call is due, or if start() is
  // called again. The function itself may call stop().
  void stop() {
    stopped_ = true;
    timer_.cancel();
  }

 private:
  asio::steady_timer timer_;
  Duration period_;
  std::function<void()> tick_;
  bool stopped_ = false;
};

}  // namespace muster::launcher
