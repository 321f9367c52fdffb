// One stream between launcher and agent that carries frames: a socketpair between processes of one machine,
// or TCP under TLS.
//
// Sending never waits: bytes are queued, and what is queued can be asked for, so that a sender with much to
// say (workers' output) holds back. Receiving is one coroutine's. Closed and silent are different: receive()
// reports the first; the owner times the second. One thread. Not a protocol: it knows
// frames, not messages.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/base/byte_queue.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/net/asio.h"
#include "common/net/tls.h"
#include "common/wire/frame.h"

namespace muster::net {

using Socket = asio::generic::stream_protocol::socket;

// An inherited or created socket descriptor, which the result owns from now on.
Socket adopt_socket(const asio::any_io_executor& executor, int fd);

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Without `tls` the bytes travel as they are: only for sockets that cannot be reached from outside.
  static std::shared_ptr<Connection> make(Socket socket, std::unique_ptr<TlsSession> tls);

  // Completes the TLS handshake, both sides proven to have the key; nothing to do without TLS.
  // kTimedOut after `limit`, kPermission when the peer lacks the key.
  awaitable<Status> handshake(Duration limit);
  // The next frame. kUnavailable: the peer closed; kCorrupt: it sent what is no frame. Close the connection
  // after either.
  awaitable<Expected<wire::Frame>> receive();
  // Queues encoded frames; `more` is what follows the first part. Ignored once closed.
  void send(std::string_view frames, std::string_view more = {});
  std::size_t backlog_bytes() const { return queue_.size(); }
  // Of a TLS server: who the peer proved to be.
  const std::string& identity() const;
  bool closed() const { return !socket_.is_open(); }
  // Pending waits end with kUnavailable. What is queued and can be written without waiting still is.
  void close();

 private:
  Connection(Socket socket, std::unique_ptr<TlsSession> tls);
  awaitable<Status> read_more();
  void flush();
  void write_later();
  std::size_t write_what_fits(std::string_view first, std::string_view second = {});

  Socket socket_;
  std::unique_ptr<TlsSession> tls_;
  wire::FrameReader reader_;
  std::deque<wire::Frame> frames_;
  ByteQueue queue_;  // to be written
  bool waits_to_write_ = false;
  bool nobody_reads_ = false;  // what is sent is thrown away
  std::vector<char> cipher_;   // read, with TLS
};

}  // namespace muster::net
