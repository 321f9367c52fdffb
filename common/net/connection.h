// One stream of frames between launcher and agent: a socketpair between processes of one machine, or TCP with
// TLS.
//
// A Connection keeps itself alive while it is being read or written. It knows frames, but not the messages in
// them. Use it on one thread.
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
  // Without `tls` the bytes are not encrypted: only for sockets that other machines cannot reach.
  static std::shared_ptr<Connection> make(Socket socket, std::unique_ptr<TlsSession> tls);

  // Completes the TLS handshake, in which both sides prove to have the key. Does nothing without TLS.
  // kTimedOut after `limit`, kPermission if the peer does not have the key. When the server has proven
  // itself, a client calls `may_prove`, if given, before it proves itself; false ends the handshake with
  // kUnavailable.
  awaitable<Status> handshake(Duration limit, std::function<bool()> may_prove = {});
  // Waits for the next frame, for a user that does not call start(). kUnavailable: the peer closed; kCorrupt:
  // the peer sent bytes that are not a frame. Close the connection after either.
  awaitable<Expected<wire::Frame>> receive();
  void start(OnFrame on_frame, OnClosed on_closed) override;
  void send(std::string_view frames, std::string_view more = {}) override;
  std::size_t backlog_bytes() const override { return queue_.size(); }
  // On a TLS server, returns the identity that the peer has proven.
  const std::string& identity() const;
  bool closed() const override { return !socket_.is_open(); }
  // Ends a pending receive() with kUnavailable.
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
  Status broken_;  // an error: no frame follows those in frames_
  // This object keeps both functions until its end, because one of them may call close().
  OnFrame on_frame_;
  OnClosed on_closed_;
  ByteQueue queue_;  // to be written
  bool waits_to_write_ = false;
  bool nobody_reads_ = false;        // send() discards what it is given
  std::function<bool()> may_prove_;  // until the handshake is over
  std::unique_ptr<char[]> cipher_;   // received bytes that are not yet decrypted, with TLS
};

}  // namespace muster::net
