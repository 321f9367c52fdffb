// Makes one socket from this process's stdin and stdout. The bytes that arrive on stdin can be received from
// the socket. The bytes that are sent to the socket go to stdout.
//
// If stdin and stdout are already the same socket, it is used directly. Otherwise two tasks copy the bytes.
// When stdin ends, the input of the socket ends. When the caller closes the socket, stdout is closed, but
// only after everything that was sent has been written. One thread.
#pragma once

#include <memory>

#include "common/net/asio.h"
#include "common/net/connection.h"

namespace muster::agent {

class StdioSocket : public std::enable_shared_from_this<StdioSocket> {
 public:
  // Takes over both descriptors. Afterwards descriptor 0 is /dev/null, and descriptor 1 is stderr.
  static std::shared_ptr<StdioSocket> open(const asio::any_io_executor& executor);
  // Returns the end of the socket that the caller uses. Call this once. If tasks are needed to copy the data,
  // starts them.
  net::Socket take();
  // Call this after closing the end that take() returned. Bytes that are not written within `limit` are
  // dropped.
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
