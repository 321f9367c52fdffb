// Carries frames between launcher and agent over a socket: a socketpair on one machine, or TCP with TLS.
//
// A Connection keeps itself alive while it reads or writes. It does not decode the messages in the frames.
// Use it on one thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/byte_queue.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/net/asio.h"
#include "common/net/channel.h"
#include "common/net/tls.h"
#include "common/wire/frame.h"

namespace muster::net {

using Socket = asio::generic::stream_protocol::socket;

// Takes ownership of a socket descriptor that was inherited or created.
Socket adopt_socket(const asio::any_io_executor& executor, int fd);

class Connection final : public Channel, public std::enable_shared_from_this<Connection> {
 public:
  // Without `tls` the bytes are not encrypted, so use this only for sockets that other machines cannot reach.
  static std::shared_ptr<Connection> make(Socket socket, std::unique_ptr<TlsSession> tls);

  // Completes the TLS handshake, in which both sides prove that they have the key. Does nothing without TLS.
  // Errors: kTimedOut after `limit`, kPermission if the peer does not have the key. On a client, `may_prove`,
  // if given, is called when the server has proven itself and before the client does. If it returns false,
  // the handshake ends with kUnavailable.
  awaitable<Status> handshake(Duration limit, std::function<bool()> may_prove = {});
  // Waits for the next frame. Use it instead of start(). Errors: kUnavailable if the peer has closed the
  // connection, kCorrupt if the peer has sent bytes that are not a frame. Close the connection after an
  // error.
  awaitable<Expected<wire::Frame>> receive();
  void start(OnFrame on_frame, OnClosed on_closed) override;
  void send(std::string_view frames, std::string_view more = {}) override;
  std::size_t backlog_bytes() const override { return queue_.size(); }
  // Returns the identity that the peer has proven. For the server's side of TLS.
  const std::string& identity() const;
  bool closed() const override { return !socket_.is_open(); }
  // As Channel::close(). A pending receive() ends with kUnavailable.
  void close() override;

 private:
  Connection(Socket socket, std::unique_ptr<TlsSession> tls);
  static awaitable<void> read_all(std::shared_ptr<Connection> self);
  awaitable<Status> read_more();
  void flush();
  void write_later();
  void break_off();
  std::size_t write_what_fits(std::string_view first, std::string_view second = {});

  Socket socket_;
  std::unique_ptr<TlsSession> tls_;
  wire::FrameReader reader_;
  std::deque<wire::Frame> frames_;
  Status broken_;  // if an error: no more frames follow those in `frames_`
  // close() does not clear these functions, because one of them may be calling it.
  OnFrame on_frame_;
  OnClosed on_closed_;
  ByteQueue queue_;  // bytes to be written
  bool waits_to_write_ = false;
  bool nobody_reads_ = false;        // the peer is gone; send() discards everything
  std::function<bool()> may_prove_;  // until the handshake is over
  std::unique_ptr<char[]> cipher_;   // received bytes that are not yet decrypted, with TLS
};

}  // namespace muster::net
