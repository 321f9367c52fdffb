// What carries frames between the launcher and one agent, whatever it is made of.
//
// The seam below the conversation: Connection (a socket) is one, the simulator's network another. Sending
// never waits; what is queued can be asked for, so that a sender with much to say holds back. A channel that
// is closed and one that is silent are different facts: the channel tells the first, its user times the
// second. One thread.
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
  // Queues encoded frames; `more` is what follows the first part. Ignored once closed.
  virtual void send(std::string_view frames, std::string_view more = {}) = 0;
  virtual std::size_t backlog_bytes() const = 0;
  virtual bool closed() const = 0;
  // Nothing is told any more. What is queued and can be written without waiting still is.
  virtual void close() = 0;
};

}  // namespace muster::net
