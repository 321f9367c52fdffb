// The conversation with one agent: frames in and out, the two clocks compared, stale frames dropped.
//
// Carries messages and decides nothing. Kept alive by its own reading coroutine until the connection closes;
// the owner may let go of it earlier with close(). One thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "common/net/connection.h"
#include "common/net/task_group.h"
#include "common/wire/codec.h"
#include "launcher/core/clock_offset.h"

namespace muster::launcher {

class Session : public std::enable_shared_from_this<Session> {
 public:
  using OnMessage = std::function<void(Session& from, Attempt attempt, wire::ToLauncher message)>;
  using OnClosed = std::function<void(Session& from, const Error& why)>;

  Session(NodeId node, std::shared_ptr<net::Connection> connection)
      : node_(node), connection_(std::move(connection)) {}
  void start(net::TaskGroup& tasks, OnMessage on_message, OnClosed on_closed);
  void send(Attempt attempt, const wire::ToAgent& message);
  void send_ping(TimePoint now);
  // Frames of earlier attempts are dropped from now on.
  void advance_to(Attempt attempt) { dispatcher_.advance_to(attempt); }
  // Neither function is called again.
  void close();
  NodeId node() const { return node_; }

 private:
  awaitable<void> read();
  void hear(const wire::Frame& frame);

  NodeId node_;
  std::shared_ptr<net::Connection> connection_;
  OnMessage on_message_;
  OnClosed on_closed_;
  wire::Dispatcher dispatcher_{wire::kLauncher};
  Sequence sent_;
  ClockOffset clock_offset_;
};

}  // namespace muster::launcher
