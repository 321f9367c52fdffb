#include "launcher/io/session.h"

#include <algorithm>

#include "common/base/log.h"

namespace muster::launcher {

namespace {

constexpr Term kTerm{1};

// A peer's times may be any numbers: what comes of them is then wrong, but not undefined.
std::int64_t difference(std::int64_t left, std::int64_t right) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(left) - static_cast<std::uint64_t>(right));
}

}  // namespace

void Session::start(net::TaskGroup& tasks, OnMessage on_message, OnClosed on_closed) {
  on_message_ = std::move(on_message);
  on_closed_ = std::move(on_closed);
  tasks.spawn(read());
}

void Session::send(Attempt attempt, const wire::ToAgent& message) {
  sent_ = sent_.next();
  connection_->send(wire::encode(
      {.type = 0, .destination = node_, .term = kTerm, .attempt = attempt, .sequence = sent_}, message));
}

void Session::send_ping(TimePoint now) {
  send(Attempt(), wire::Ping{to_ns(now)});
}

void Session::close() {
  on_message_ = nullptr;
  on_closed_ = nullptr;
  connection_->close();
}

awaitable<void> Session::read() {
  const auto self = shared_from_this();
  for (;;) {
    auto frame = co_await connection_->receive();
    if (!frame) {
      connection_->close();
      if (on_closed_) on_closed_(*this, frame.error());
      co_return;
    }
    hear(*frame);
  }
}

void Session::hear(const wire::Frame& frame) {
  if (dispatcher_.judge(frame.header) != wire::Dispatcher::Verdict::kDeliver || !on_message_) return;
  auto message = wire::decode_for_launcher(frame);
  if (!message) {
    log::warning("node{}: {}", node_, message.error().message());
    return;
  }
  if (const auto* pong = std::get_if<wire::Pong>(&*message)) compare_clocks(*pong, Clock::now());
  const auto here = [this](std::int64_t there) {
    return std::clamp(difference(there, clock_offset_.count()), std::int64_t{0}, to_ns(Clock::now()));
  };
  if (auto* exited = std::get_if<wire::WorkerExited>(&*message)) exited->at_ns = here(exited->at_ns);
  if (auto* stalled = std::get_if<wire::WorkerStalled>(&*message))
    stalled->since_ns = here(stalled->since_ns);
  on_message_(*this, frame.header.attempt, std::move(*message));
}

// The agent answered somewhere within the round trip: the shorter it was, the better is its middle.
void Session::compare_clocks(const wire::Pong& pong, TimePoint now) {
  const std::chrono::nanoseconds round_trip(difference(to_ns(now), pong.sent_ns));
  if (round_trip.count() < 0 || (shortest_round_trip_ && round_trip >= *shortest_round_trip_)) return;
  shortest_round_trip_ = round_trip;
  clock_offset_ =
      std::chrono::nanoseconds(difference(difference(pong.at_ns, pong.sent_ns), round_trip.count() / 2));
}

}  // namespace muster::launcher
