#include "agent/io/link.h"

#include "common/base/log.h"

namespace muster::agent {

wire::FrameHeader Link::next_header(Attempt attempt) {
  if (sent_term_ != dispatcher_.term()) {
    sent_term_ = dispatcher_.term();
    sent_ = {};
  }
  sent_ = sent_.next();
  return {.term = sent_term_, .attempt = attempt, .sequence = sent_};
}

void Link::send(Attempt attempt, const wire::ToLauncher& message) {
  connection_->send(wire::encode(next_header(attempt), message));
}

void Link::send(Attempt attempt, const wire::Output& output, std::string_view text) {
  connection_->send(wire::encode_before_text(next_header(attempt), output, text), text);
}

awaitable<Expected<Link::Incoming>> Link::receive() {
  for (;;) {
    auto frame = co_await connection_->receive();
    if (!frame) {
      connection_->close();
      co_return std::unexpected(frame.error());
    }
    if (dispatcher_.judge(frame->header) != wire::Dispatcher::Verdict::kDeliver) {
      log::debug("dropped a frame for node {} of term {}, attempt {}", frame->header.destination,
                 frame->header.term, frame->header.attempt);
      continue;
    }
    auto message = wire::decode_for_agent(*frame);
    if (!message) {
      connection_->close();
      co_return std::unexpected(message.error());
    }
    co_return Incoming{frame->header.attempt, *std::move(message)};
  }
}

}  // namespace muster::agent
