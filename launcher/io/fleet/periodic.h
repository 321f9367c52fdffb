// What is done every so often until it is stopped, as telling people how far it is.
#pragma once

#include <functional>

#include "common/base/clock.h"
#include "common/net/asio.h"

namespace muster::launcher {

// One thread. Outlives the io_context's run().
class Periodic {
 public:
  Periodic(asio::io_context& context, Duration period, std::function<void()> tick)
      : timer_(context), period_(period), tick_(std::move(tick)) {}
  // First when a period is over.
  void start() {
    timer_.expires_after(period_);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error || stopped_) return;
      tick_();
      if (!stopped_) start();
    });
  }
  // For good, within a tick too, and also if the period is over and the tick is due.
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
