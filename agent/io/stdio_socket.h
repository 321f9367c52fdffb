// This process's stdin and stdout as one socket: what comes on stdin is received there, and what is sent
// there goes to stdout.
//
// Where both are one socket already, it is that one: a start waits for no copy. Else two tasks copy. An end
// on one side ends the other: stdin's end is an end of the socket, and the socket's is stdout's, once all
// that was sent has been written. One thread.
#pragma once

#include <memory>

#include "common/net/asio.h"
#include "common/net/connection.h"

namespace muster::agent {

class StdioSocket : public std::enable_shared_from_this<StdioSocket> {
 public:
  // Takes both descriptors. From then on stdin is empty, and what is written to stdout goes to stderr.
  static std::shared_ptr<StdioSocket> open(const asio::any_io_executor& executor);
  // The end for the user, once. The tasks begin, if any are needed.
  net::Socket take();
  // The user has closed its end: what is not written after `limit` is thrown away.
  void finish(Duration limit);

 private:
  explicit StdioSocket(const asio::any_io_executor& executor);
  static awaitable<void> copy_in(std::shared_ptr<StdioSocket> self);
  static awaitable<void> copy_out(std::shared_ptr<StdioSocket> self);
  void close();

  asio::posix::stream_descriptor in_;
  asio::posix::stream_descriptor out_;
  net::Socket users_;
  net::Socket own_;
  asio::steady_timer timer_;
};

}  // namespace muster::agent
