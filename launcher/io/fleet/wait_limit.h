// A deadline for waits on a socket, a descriptor or a timer. There is also a function that pauses.
#pragma once

#include <memory>

#include "common/base/clock.h"
#include "common/net/asio.h"

namespace muster::launcher {

// While this object lives, it cancels all waits on `io` when the deadline comes. One thread.
class WaitLimit {
 public:
  template <class Io>
  WaitLimit(Io& io, TimePoint deadline) : timer_(io.get_executor()) {
    if (deadline == TimePoint::max()) return;
    timer_.expires_at(deadline);
    timer_.async_wait([&io, state = state_](const boost::system::error_code& error) {
      if (error || state->over) return;
      state->expired = true;
      io.cancel();
    });
  }
  WaitLimit(const WaitLimit&) = delete;
  WaitLimit& operator=(const WaitLimit&) = delete;
  ~WaitLimit() {
    state_->over = true;
    timer_.cancel();
  }
  bool expired() const { return state_->expired; }

 private:
  struct State {
    bool expired = false;
    bool over = false;  // the wait has ended: `io` may have another user, or be gone
  };
  asio::steady_timer timer_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

inline awaitable<void> pause_for(asio::any_io_executor executor, Duration time) {
  asio::steady_timer timer(executor, time);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

}  // namespace muster::launcher
