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
  // Without `tls` the bytes are not encrypted. Use such a connection only for a socket that no other machine
  // can reach.
  static std::shared_ptr<Connection> make(Socket socket, std::unique_ptr<TlsSession> tls);

  // Completes the TLS handshake. In it, both sides prove that they have the key. Without TLS this does
  // nothing. Returns kTimedOut after `limit`, and kPermission if the peer does not have the key. A client can
  // pass `may_prove`. It is called when the server has proved that it has the key, and before the client
  // proves the same. If it returns false, the handshake ends with kUnavailable.
  awaitable<Status> handshake(Duration limit, std::function<bool()> may_prove = {});
  // Waits for the next frame. A caller uses either this function or start(). Returns kUnavailable if the peer
  // has closed the connection, and kCorrupt if the peer has sent bytes that are not a frame. After an error,
  // close the connection.
  awaitable<Expected<wire::Frame>> receive();
  void start(OnFrame on_frame, OnClosed on_closed) override;
  void send(std::string_view frames, std::string_view more = {}) override;
  std::size_t backlog_bytes() const override { return queue_.size(); }
  // On the server's side of TLS, returns the identity that the peer has proved.
  const std::string& identity() const;
  // Returns whether the peer has sent nothing yet.
  bool silent() const;
  bool closed() const override { return !socket_.is_open(); }
  // Closes the connection, as Channel::close() says. If a receive() is waiting, it ends with kUnavailable.
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
  // close() leaves these functions as they are, because the call of close() may come from one of them.
  OnFrame on_frame_;
  OnClosed on_closed_;
  ByteQueue queue_;  // bytes to be written
  bool silent_ = true;
  bool waits_to_write_ = false;
  bool nobody_reads_ = false;        // the peer is gone; send() discards everything
  std::function<bool()> may_prove_;  // until the handshake is over
  std::vector<char> cipher_;         // with TLS: received bytes that are not yet decrypted
};

}  // namespace muster::net
