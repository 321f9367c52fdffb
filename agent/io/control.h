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
  // Makes the connection to the launcher. Runs the io_context until the connection is made or has failed.
  // `self` is this process. If the agent stays, call this again for each job that next_job() returns.
  Expected<std::shared_ptr<net::Channel>> connect(const Arguments& arguments, const ProcessIdentity& self);
  // Some agents start with stdin and stdout as their connection and then move to TLS. This function waits for
  // kMoveAfter and then connects such an agent to the launcher. If that fails, the agent stays with stdin and
  // stdout. But if `arguments` do not allow stdin and stdout, the function returns the error.
  awaitable<Status> move(const Arguments& arguments);
  // Call this when the connection is closed. Closes stdin and stdout within a second. After that, nothing
  // here keeps the io_context running.
  void finish();
  // Returns whether this agent stays for further jobs, and the stream that it keeps is still open.
  bool stays() const { return kept_ != nullptr && !kept_->closed(); }
  // Tells the launcher that the job is over, and runs the io_context until the next job comes. Call this only
  // if the agent stays. Returns nullopt if the launcher is gone, or if it sends an invalid job.
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
