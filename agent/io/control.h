// Makes the connection of an agent to its launcher: an inherited socket, TLS, or the agent's own stdin and
// stdout.
//
// - An agent that starts with stdin and stdout can be told to move to TLS later. Then the start of its
//   workers does not wait for the TLS handshake.
// - An agent without an inherited socket writes a preamble to stdout and reads its key from stdin; see
//   docs/protocol.md.
// - If stdin ends while the agent connects over TLS, connect() fails, because the launcher is gone.
// - An agent that stays (Arguments::stays) keeps stdin and stdout from job to job.
// One thread.
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
  // Makes the connection; runs the io_context until that has succeeded or failed. `self`: this process. If
  // the agent stays, call connect() again for each job that next_job() returns.
  Expected<std::shared_ptr<net::Channel>> connect(const Arguments& arguments, const ProcessIdentity& self);
  // If the agent started with stdin and stdout and is to move to TLS, connects to the launcher after
  // kMoveAfter. If this fails, the agent continues with stdin and stdout, or returns an error if `arguments`
  // do not allow that.
  awaitable<Status> move(const Arguments& arguments);
  // Call when the connection is closed. Closes stdin and stdout within a second, so that the io_context runs
  // out of work.
  void finish();
  // Whether the agent stays, and the stream that it keeps is open.
  bool stays() const { return kept_ != nullptr && !kept_->closed(); }
  // For an agent that stays: tells the launcher that the job is over, and runs the io_context until the next
  // job comes. Returns nullopt if the launcher is gone or sends an invalid job.
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
