// A channel that moves from one stream to another while it is used: an agent is spoken to through its host's
// shell at once, and over TLS when it has called.
//
// The launcher's side moves, and the agent's follows. Each says by its last frame on the first stream that
// nothing comes there any more, and the other reads the next stream from then on: no frame is lost, repeated
// or overtaken. What was left stays open until close(), and its end means nothing. It moves once. One thread.
#pragma once

#include <memory>

#include "common/net/channel.h"

namespace muster::net {

class MovingChannel final : public Channel, public std::enable_shared_from_this<MovingChannel> {
 public:
  explicit MovingChannel(std::shared_ptr<Channel> first) : first_(std::move(first)) {}

  // Sends by `next`, of which nothing has been read yet, from now on. After start(). One more is closed.
  void move_to(std::shared_ptr<Channel> next);
  // The same as soon as the peer has moved.
  void follow_to(std::shared_ptr<Channel> next);
  // Nothing comes and goes by the first stream any more.
  bool moved() const { return has_left_ && peer_has_left_; }

  void start(OnFrame on_frame, OnClosed on_closed) override;
  void send(std::string_view frames, std::string_view more = {}) override;
  std::size_t backlog_bytes() const override;
  bool closed() const override { return closed_ || sending().closed(); }
  void close() override;

 private:
  Channel& sending() const { return has_left_ ? *next_ : *first_; }
  bool take(std::shared_ptr<Channel> next);
  void leave();
  void hear(Channel& stream);
  void heard(wire::Frame frame, bool by_first);
  void ended(const Error& why, bool first);
  void peer_left();

  std::shared_ptr<Channel> first_;
  std::shared_ptr<Channel> next_;  // none yet
  OnFrame on_frame_;
  OnClosed on_closed_;
  bool has_left_ = false;       // the first stream
  bool peer_has_left_ = false;  // the same of the peer, which has said so
  bool closed_ = false;
};

}  // namespace muster::net
