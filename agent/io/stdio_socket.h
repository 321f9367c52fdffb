// Makes one socket of this process's stdin and stdout: what arrives on stdin is received from the socket, and
// what is sent to the socket goes to stdout.
//
// If stdin and stdout are already the same socket, it is used directly, without copying. Otherwise two tasks
// copy. The end of stdin ends the socket's input. When the caller closes the socket, stdout is closed once
// everything that was sent has been written. One thread.
#pragma once

#include <memory>

#include "common/net/asio.h"
#include "common/net/connection.h"

namespace muster::agent {

class StdioSocket : public std::enable_shared_from_this<StdioSocket> {
 public:
  // Takes over both descriptors. Afterwards descriptor 0 is /dev/null, and descriptor 1 is stderr.
  static std::shared_ptr<StdioSocket> open(const asio::any_io_executor& executor);
  // Returns the caller's end of the socket; call once. Starts the tasks, if they are needed.
  net::Socket take();
  // Call after closing the end that take() returned. Discards what is not written within `limit`.
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
