#include "agent/io/link.h"

#include <algorithm>

#include "common/base/log.h"

namespace muster::agent {

wire::FrameHeader Link::next_header(Attempt attempt) {
  if (sent_term_ != dispatcher_.term()) {
    sent_term_ = dispatcher_.term();
    sent_ = {};
  }
  sent_ = sent_.next();
  return {.source = own_, .term = sent_term_, .attempt = attempt, .sequence = sent_};
}

void Link::send(Attempt attempt, const wire::ToLauncher& message) {
  channel_->send(wire::encode(next_header(attempt), message));
}

void Link::send(Attempt attempt, const wire::Output& output, std::string_view text) {
  Window& its = window(output.stream);
  if (its.sent_bytes - its.taken_bytes <= its.flow.high_bytes()) its.alive_at = time_.now();
  its.sent_bytes += text.size();
  channel_->send(wire::encode_before_text(next_header(attempt), output, text), text);
}

void Link::send(Attempt attempt, const wire::LogPiece& piece, std::string_view text) {
  channel_->send(wire::encode_before_text(next_header(attempt), piece, text), text);
}

void Link::set_output_limits(const wire::JobSpec& job) {
  hurried_streams_ = job.terminal_streams;
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(job.output_window_bytes, 0));
  for (Window& each : windows_) each.flow = Flow(bytes, job.limits.output_stall);
  set_hurry(false);
}

void Link::set_hurry(bool hurry) {
  for (const std::int32_t stream : {1, 2})
    window(stream).flow.set_hurry(hurry || (hurried_streams_ & stream) != 0);
}

void Link::taken(const wire::OutputTaken& taken) {
  Window& its = window(taken.stream);
  const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(taken.bytes, 0));
  its.taken_bytes = std::clamp(bytes, its.taken_bytes, its.sent_bytes);
  its.alive_at = time_.now();
}

bool Link::hold(std::int32_t stream) {
  Window& its = window(stream);
  if (its.flow.high_bytes() == 0 || channel_->closed()) return false;
  return its.flow.hold(its.sent_bytes - its.taken_bytes, its.alive_at, time_.now());
}

void Link::start(OnMessage on_message, OnClosed on_closed) {
  on_message_ = std::move(on_message);
  on_closed_ = std::move(on_closed);
  channel_->start([this](const wire::Frame& frame) { hear(frame); },
                  [this](const Error& why) { ended(why); });
}

void Link::ended(const Error& why) {
  if (why.code() == ErrorCode::kCorrupt) log::error("{}", why.message());
  on_closed_(why);
}

void Link::hear(const wire::Frame& frame) {
  if (dispatcher_.judge(frame.header) != wire::Dispatcher::Result::kDeliver)
    return log::debug("dropped a frame from {} for {} of term {}, attempt {}", frame.header.source,
                      frame.header.destination, frame.header.term, frame.header.attempt);
  auto message = wire::decode_for_agent(frame);
  if (message) return on_message_({frame.header.attempt, *std::move(message)});
  close();
  ended(message.error());
}

}  // namespace muster::agent
