#include "common/net/moving_channel.h"

#include <string>
#include <utility>

namespace muster::net {

void MovingChannel::move_to(std::shared_ptr<Channel> next) {
  if (!take(std::move(next))) return;
  leave();
}

void MovingChannel::follow_to(std::shared_ptr<Channel> next) {
  if (take(std::move(next)) && peer_has_left_) peer_left();
}

bool MovingChannel::take(std::shared_ptr<Channel> next) {
  if (next_ == nullptr && !closed()) {
    next_ = std::move(next);
    return true;
  }
  next->close();
  return false;
}

void MovingChannel::leave() {
  constexpr std::string_view kNull = "\xf6";
  wire::FrameHeader header;
  header.type = wire::kMovesOn;
  std::string last;
  wire::append_frame(last, header, kNull);
  first_->send(last);
  has_left_ = true;
}

void MovingChannel::start(OnFrame on_frame, OnClosed on_closed) {
  on_frame_ = std::move(on_frame);
  on_closed_ = std::move(on_closed);
  hear(*first_);
}

void MovingChannel::hear(Channel& stream) {
  const bool first = &stream == first_.get();
  stream.start(
      [weak = weak_from_this(), first](wire::Frame frame) {
        if (const auto self = weak.lock()) self->heard(std::move(frame), first);
      },
      [weak = weak_from_this(), first](const Error& why) {
        if (const auto self = weak.lock()) self->ended(why, first);
      });
}

void MovingChannel::heard(wire::Frame frame, bool by_first) {
  if (closed_) return;
  const bool last = frame.header.type == wire::kMovesOn;
  if (last ? !by_first || peer_has_left_ : by_first && peer_has_left_)
    return ended(Error(ErrorCode::kCorrupt, "a frame came after the last one of its stream"), false);
  if (!last) return on_frame_(std::move(frame));
  peer_has_left_ = true;
  if (next_ != nullptr) peer_left();
}

void MovingChannel::peer_left() {
  if (!has_left_) leave();
  hear(*next_);
}

// Handles the end of a stream; `first` tells whether it is the first one. The first stream may end once the
// peer has moved to the second stream. If this side's last frame was lost with the first stream, the peer
// closes both streams, and this side notices that on the second one.
void MovingChannel::ended(const Error& why, bool first) {
  if (closed_ || (first && peer_has_left_)) return;
  close();
  on_closed_(why);
}

void MovingChannel::send(std::string_view frames, std::string_view more) {
  if (!closed_) sending().send(frames, more);
}

std::size_t MovingChannel::backlog_bytes() const {
  std::size_t bytes = first_->closed() ? 0 : first_->backlog_bytes();
  if (next_ != nullptr) bytes += next_->backlog_bytes();
  return bytes;
}

void MovingChannel::close() {
  closed_ = true;
  first_->close();
  if (next_ != nullptr) next_->close();
}

}  // namespace muster::net
