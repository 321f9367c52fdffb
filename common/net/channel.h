// Carries frames between the launcher and one agent.
//
// Connection (a socket) is one implementation, the simulator's network has another. Sending never waits; a
// sender with much to send checks backlog_bytes() and sends less. A channel reports when it is closed. Its
// user must decide how long the peer is allowed to be silent. Use a channel on one thread.
#pragma once

#include <functional>
#include <string_view>

#include "common/base/error.h"
#include "common/wire/frame.h"

namespace muster::net {

class Channel {
 public:
  using OnFrame = std::function<void(wire::Frame frame)>;
  using OnClosed = std::function<void(const Error& why)>;
  virtual ~Channel() = default;

  // From now on `on_frame` is called for each frame, in the order in which they arrive. When the channel
  // ends, `on_closed` is called once, with the reason. It is kUnavailable if the peer has closed the channel,
  // and kCorrupt if the peer has sent bytes that are not a frame.
  virtual void start(OnFrame on_frame, OnClosed on_closed) = 0;
  // Queues encoded frames: first `frames`, and then `more`. If the channel is closed, this does nothing.
  virtual void send(std::string_view frames, std::string_view more = {}) = 0;
  virtual std::size_t backlog_bytes() const = 0;
  virtual bool closed() const = 0;
  // Closes the channel. From now on no handler is called. Frames that are queued are still written, as far as
  // that is possible without waiting.
  virtual void close() = 0;
};

}  // namespace muster::net
