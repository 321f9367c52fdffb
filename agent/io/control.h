// How an agent comes to speak with its launcher: by a socket that it inherited, over TLS, or by its own stdin
// and stdout.
//
// An agent that begins with stdin and stdout may go over to TLS later: with its workers started first,
// nothing waits for a handshake. An agent that inherited no socket writes a preamble to stdout, and reads its
// key from stdin: docs/protocol.md. Until it is spoken to, the end of stdin is the end of its launcher. One
// thread.
#pragma once

#include <memory>

#include "agent/core/start/agent_arguments.h"
#include "agent/io/stdio_socket.h"
#include "common/base/process.h"
#include "common/net/connection.h"
#include "common/net/moving_channel.h"

namespace muster::agent {

class Control {
 public:
  explicit Control(asio::io_context& io) : io_(io) {}
  // Runs the io_context until there is a connection, or will be none. `self`: this process.
  Expected<std::shared_ptr<net::Channel>> connect(const Arguments& arguments, const ProcessIdentity& self);
  // A little later, the launcher is called by those who are to be spoken to over TLS after stdin and stdout.
  // An error: nobody was reached, and that is not put up with.
  awaitable<Status> move(const Arguments& arguments);
  // The connection has been closed: the io_context runs out of work soon.
  void finish();

 private:
  asio::io_context& io_;
  std::shared_ptr<StdioSocket> stdio_;
  std::shared_ptr<net::MovingChannel> moving_;  // if it is to move
  net::Key key_{};
};

}  // namespace muster::agent
