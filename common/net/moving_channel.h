// A channel that moves from one stream to another while it is used. The launcher first talks to an agent
// through the host's shell. Once the agent has connected over TLS, they use that connection.
//
// The launcher's side moves first, and the agent's side follows. Each side marks its last frame on the first
// stream. From then on its peer reads the second stream. So no frame is lost, no frame comes twice, and none
// overtakes another. The first stream stays open until close(). Once the peer has left the first stream, the
// end of this stream is ignored. A channel moves only once. Use a channel on one thread.
#pragma once

#include <memory>

#include "common/net/channel.h"

namespace muster::net {

class MovingChannel final : public Channel, public std::enable_shared_from_this<MovingChannel> {
 public:
  explicit MovingChannel(std::shared_ptr<Channel> first) : first_(std::move(first)) {}

  // From now on the channel sends on `next`. Call this after start(). The caller must not have read
  // anything from `next`. If the channel already has a second stream, this function closes `next` instead.
  void move_to(std::shared_ptr<Channel> next);
  // Does the same as move_to(), but waits until the peer has moved.
  void follow_to(std::shared_ptr<Channel> next);
  // Returns whether both sides have left the first stream.
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
  std::shared_ptr<Channel> next_;  // null until there is a second stream
  OnFrame on_frame_;
  OnClosed on_closed_;
  bool has_left_ = false;       // this side has left the first stream
  bool peer_has_left_ = false;  // the peer has marked its last frame on the first stream
  bool closed_ = false;
};

}  // namespace muster::net
