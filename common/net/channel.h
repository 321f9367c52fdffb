// Carries frames between the launcher and one agent.
//
// The seam below the conversation: Connection (a socket) is one channel, the simulator's network another.
// Sending never waits; a sender with much to send checks how much is queued, and holds back. A channel
// reports when it is closed; its user decides how long it may be silent. Use a channel on one thread.
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

  // From now on calls `on_frame` for each frame, in order of arrival. When the channel is closed, calls
  // `on_closed` once, with the reason. kUnavailable: the peer closed; kCorrupt: the peer sent bytes that are
  // not a frame.
  virtual void start(OnFrame on_frame, OnClosed on_closed) = 0;
  // Queues encoded frames: `frames`, then `more`. Does nothing once closed.
  virtual void send(std::string_view frames, std::string_view more = {}) = 0;
  virtual std::size_t backlog_bytes() const = 0;
  virtual bool closed() const = 0;
  // Calls the handlers no more. Queued frames that can be written without waiting are still written.
  virtual void close() = 0;
};

}  // namespace muster::net
