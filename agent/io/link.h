// The agent's side of the conversation with its launcher: messages over a connection.
//
// Numbers what is sent, answers with the highest term that was heard, and hands on only what is current. One
// thread; one receiver.
#pragma once

#include <memory>

#include "agent/core/flow.h"
#include "common/net/connection.h"
#include "common/wire/codec.h"

namespace muster::agent {

class Link {
 public:
  static constexpr std::size_t kMaxBacklogBytes = std::size_t{32} << 20;

  struct Incoming {
    Attempt attempt;
    wire::ToAgent message;
  };

  Link(std::shared_ptr<net::Connection> connection, NodeId own)
      : connection_(std::move(connection)), dispatcher_(own) {}
  // Queued; ignored once the connection is closed.
  void send(Attempt attempt, const wire::ToLauncher& message);
  // Output, with this text instead of its own.
  void send(Attempt attempt, const wire::Output& output, std::string_view text);
  // The next message for this node that is neither repeated nor stale. kUnavailable: the launcher is gone, or
  // sent what cannot be understood; the link is closed.
  awaitable<Expected<Incoming>> receive();
  // Orders for earlier attempts are dropped from now on.
  void advance_to(Attempt attempt) { dispatcher_.advance_to(attempt); }
  // The launcher is behind, and may catch up soon: what has time should not be sent now.
  bool hold() { return flow_.hold(connection_->backlog_bytes(), Clock::now()); }
  // The launcher does not keep up: only what decides about the job should still be sent.
  bool crowded() const { return connection_->backlog_bytes() > kMaxBacklogBytes; }
  void close() { connection_->close(); }

 private:
  wire::FrameHeader next_header(Attempt attempt);

  std::shared_ptr<net::Connection> connection_;
  wire::Dispatcher dispatcher_;
  Flow flow_;
  Term sent_term_;
  Sequence sent_;
};

}  // namespace muster::agent
