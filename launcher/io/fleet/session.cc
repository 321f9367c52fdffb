#include "launcher/io/fleet/session.h"

namespace muster::launcher {

namespace {

constexpr Term kTerm{1};
constexpr std::uint64_t kToldPerWindow = 4;

}  // namespace

void Session::start(OnMessage on_message, OnClosed on_closed) {
  on_message_ = std::move(on_message);
  on_closed_ = std::move(on_closed);
  channel_->start(
      [weak = weak_from_this()](wire::Frame frame) {
        if (const auto self = weak.lock()) self->hear(std::move(frame));
      },
      [weak = weak_from_this()](const Error& why) {
        if (const auto self = weak.lock()) self->on_closed_(why);
      });
}

void Session::send(Attempt attempt, const wire::ToAgent& message) {
  sent_ = sent_.next();
  channel_->send(wire::encode(
      {.destination = node_, .source = wire::kLauncher, .term = kTerm, .attempt = attempt, .sequence = sent_},
      message));
}

void Session::send_ping(bool output_waits, bool usage) {
  send(Attempt(), wire::Ping{to_ns(time_.now()), output_waits, usage});
}

Taken Session::received_output(std::int32_t stream, std::size_t bytes) {
  Received& its = received(stream);
  its.all += bytes;
  if (!its.on_taken) {
    its.on_taken = std::make_shared<const std::function<void(std::size_t)>>(
        [weak = weak_from_this(), stream](std::size_t taken_bytes) {
          const auto self = weak.lock();
          if (!self) return;
          Received& ours = self->received(stream);
          ours.taken += taken_bytes;
          // The agent gets a message only when another quarter of its window has been taken. Most agents send
          // less output than a quarter, and get no message.
          if (self->window_bytes_ > 0 && ours.taken - ours.told >= self->window_bytes_ / kToldPerWindow)
            self->tell_taken(stream);
        });
  }
  return its.on_taken;
}

void Session::reassure(std::int32_t stream) {
  if (window_bytes_ > 0 && received(stream).told < received(stream).all) tell_taken(stream);
}

void Session::tell_taken(std::int32_t stream) {
  Received& its = received(stream);
  its.told = its.taken;
  send(Attempt(), wire::OutputTaken{stream, static_cast<std::int64_t>(its.taken)});
}

void Session::hear(wire::Frame frame) {
  if (dispatcher_.judge(frame.header) != wire::Dispatcher::Result::kDeliver) return;
  const Attempt attempt = frame.header.attempt;
  auto message = wire::decode_for_launcher(std::move(frame));
  if (!message) {
    channel_->close();
    return on_closed_(message.error());
  }
  if (const auto* pong = std::get_if<wire::Pong>(&*message)) clock_offset_.on(*pong, time_.now());
  if (auto* exited = std::get_if<wire::WorkerExited>(&*message))
    exited->at_ns = clock_offset_.here(exited->at_ns, time_.now());
  if (auto* stalled = std::get_if<wire::WorkerStalled>(&*message))
    stalled->since_ns = clock_offset_.here(stalled->since_ns, time_.now());
  on_message_(attempt, std::move(*message));
}

}  // namespace muster::launcher
