// This process's stdin and stdout as one socket: input from stdin is received on it, and what is sent on it
// goes to stdout.
//
// If stdin and stdout are already the same socket, it is used directly, without copying. Otherwise two tasks
// copy. The end of stdin ends the socket's input; closing the socket ends stdout, once everything that was
// sent has been written. One thread.
#pragma once

#include <memory>

#include "common/net/asio.h"
#include "common/net/connection.h"

namespace muster::agent {

class StdioSocket : public std::enable_shared_from_this<StdioSocket> {
 public:
  // Takes both descriptors. Afterwards stdin is empty, and writes to stdout go to stderr.
  static std::shared_ptr<StdioSocket> open(const asio::any_io_executor& executor);
  // Returns the user's end; call once. Starts the tasks, if they are needed.
  net::Socket take();
  // The user has closed its end: discards what is not written within `limit`.
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
