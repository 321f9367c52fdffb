// What carries frames between the launcher and one agent, whatever it is made of.
//
// The seam below the conversation: Connection (a socket) is one channel, the simulator's network another.
// Sending never waits; a sender with much to say asks how much is queued, and holds back. A channel says when
// it is closed; how long it may be silent is for its user to decide. One thread.
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

  // From now on each frame is told, in the order of arrival, and at last why no more will come. kUnavailable:
  // the peer closed; kCorrupt: the peer sent what is no frame. The channel is closed then.
  virtual void start(OnFrame on_frame, OnClosed on_closed) = 0;
  // Queues encoded frames, in two parts, `frames` and then `more`. Ignored once closed.
  virtual void send(std::string_view frames, std::string_view more = {}) = 0;
  virtual std::size_t backlog_bytes() const = 0;
  virtual bool closed() const = 0;
  // Nothing is told any more. Queued frames that can be written without waiting still are.
  virtual void close() = 0;
};

}  // namespace muster::net
