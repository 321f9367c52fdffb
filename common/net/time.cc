#include "common/net/time.h"

namespace muster::net {

namespace {

class SystemAlarm final : public Alarm {
 public:
  SystemAlarm(const asio::any_io_executor& executor, std::function<void()> ring)
      : state_(std::make_shared<State>(State{asio::steady_timer(executor), std::move(ring)})) {}
  SystemAlarm(const SystemAlarm&) = delete;
  SystemAlarm& operator=(const SystemAlarm&) = delete;
  ~SystemAlarm() override { set(std::nullopt); }

  void set(std::optional<TimePoint> when) override {
    if (when == state_->when) return;
    state_->when = when;
    state_->timer.cancel();
    if (!when) return;
    state_->timer.expires_at(*when);
    // If the time has come but the handler has not run yet, cancel() has no effect, and the handler runs for
    // the old time. So the handler checks that `when` is still the time for which it was made.
    state_->timer.async_wait([state = state_, meant = *when](const boost::system::error_code& error) {
      if (error || state->when != meant) return;
      state->when.reset();
      state->ring();
    });
  }

 private:
  struct State {
    asio::steady_timer timer;
    std::function<void()> ring;
    std::optional<TimePoint> when{};
  };
  std::shared_ptr<State> state_;
};

}  // namespace

std::unique_ptr<Alarm> SystemTime::make_alarm(std::function<void()> ring) {
  return std::make_unique<SystemAlarm>(executor_, std::move(ring));
}

}  // namespace muster::net
