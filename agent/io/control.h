// Makes the connection of an agent to its launcher: an inherited socket, TLS, or the agent's own stdin and
// stdout.
//
// An agent that starts with stdin and stdout can be told to move to TLS later, so that the start of its
// workers does not wait for a handshake. An agent without an inherited socket writes a preamble to stdout and
// reads its key from stdin: docs/protocol.md. Until the first message arrives, the end of stdin means that
// the launcher is gone. An agent that stays keeps stdin and stdout from job to job. One thread.
#pragma once

#include <memory>
#include <optional>

#include "agent/core/start/agent_arguments.h"
#include "agent/io/stdio_socket.h"
#include "common/base/process.h"
#include "common/net/connection.h"
#include "common/net/kept_stream.h"
#include "common/net/moving_channel.h"

namespace muster::agent {

class Control {
 public:
  explicit Control(asio::io_context& io) : io_(io) {}
  // Runs the io_context until there is a connection or none can be made. `self`: this process. For an agent
  // that stays, call it again for each job that next_job() returns.
  Expected<std::shared_ptr<net::Channel>> connect(const Arguments& arguments, const ProcessIdentity& self);
  // For an agent that started with stdin and stdout and is to move to TLS: connects to the launcher a little
  // later. If it cannot connect, the agent stays with stdin and stdout; if `arguments` do not allow that,
  // returns an error.
  awaitable<Status> move(const Arguments& arguments);
  // Call when the connection is closed, so that the io_context soon runs out of work.
  void finish();
  // For an agent that stays: whether the stream that it keeps is open.
  bool stays() const { return kept_ != nullptr && !kept_->closed(); }
  // Tells the launcher that the job is over, and runs the io_context until the next job comes. nullopt: the
  // launcher is gone.
  std::optional<Arguments> next_job();

 private:
  Expected<std::shared_ptr<net::Channel>> open_stdio(const Arguments& arguments);

  asio::io_context& io_;
  std::shared_ptr<StdioSocket> stdio_;
  std::shared_ptr<net::KeptStream> kept_;       // of an agent that stays
  std::shared_ptr<net::MovingChannel> moving_;  // if it is to move
  net::Key key_{};
};

}  // namespace muster::agent
