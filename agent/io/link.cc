#include "agent/io/link.h"

#include "common/base/log.h"

namespace muster::agent {

void Link::send(Attempt attempt, const wire::ToLauncher& message) {
  if (sent_term_ != dispatcher_.term()) {
    sent_term_ = dispatcher_.term();
    sent_ = {};
  }
  sent_ = sent_.next();
  connection_->send(wire::encode({.term = sent_term_, .attempt = attempt, .sequence = sent_}, message));
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
