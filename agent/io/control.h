// How an agent comes to speak with its launcher: by a socket that it inherited, over TLS, or by its own stdin
// and stdout.
//
// An agent that inherited no socket writes a preamble to stdout, and reads its key from stdin:
// docs/protocol.md. Until it is spoken to, the end of stdin is the end of its launcher. One thread.
#pragma once

#include <memory>

#include "agent/core/start/agent_arguments.h"
#include "agent/io/stdio_socket.h"
#include "common/net/connection.h"

namespace muster::agent {

class Control {
 public:
  explicit Control(asio::io_context& io) : io_(io) {}
  // Runs the io_context until there is a connection, or will be none.
  Expected<std::shared_ptr<net::Connection>> connect(const Arguments& arguments);
  // The connection has been closed: the io_context runs out of work soon.
  void finish();

 private:
  asio::io_context& io_;
  std::shared_ptr<StdioSocket> stdio_;
};

}  // namespace muster::agent
