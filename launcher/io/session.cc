#include "launcher/io/session.h"

#include "common/base/log.h"

namespace muster::launcher {

namespace {

constexpr Term kTerm{1};

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
  if (const auto* pong = std::get_if<wire::Pong>(&*message)) clock_offset_.on(*pong, Clock::now());
  if (auto* exited = std::get_if<wire::WorkerExited>(&*message))
    exited->at_ns = clock_offset_.here(exited->at_ns, Clock::now());
  if (auto* stalled = std::get_if<wire::WorkerStalled>(&*message))
    stalled->since_ns = clock_offset_.here(stalled->since_ns, Clock::now());
  on_message_(*this, frame.header.attempt, std::move(*message));
}

}  // namespace muster::launcher
