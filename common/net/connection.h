// One stream between launcher and agent that carries frames: a socketpair between processes of one machine,
// or TCP under TLS.
//
// Keeps itself alive while it is read or written. One thread. Not a protocol: it knows frames, not messages.
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

// An inherited or created socket descriptor, which the result owns from now on.
Socket adopt_socket(const asio::any_io_executor& executor, int fd);

class Connection final : public Channel, public std::enable_shared_from_this<Connection> {
 public:
  // Without `tls` the bytes travel as they are: only for sockets that cannot be reached from outside.
  static std::shared_ptr<Connection> make(Socket socket, std::unique_ptr<TlsSession> tls);

  // Completes the TLS handshake, both sides proven to have the key; nothing to do without TLS.
  // kTimedOut after `limit`, kPermission when the peer lacks the key. A client asks `may_prove`, if given,
  // when the server has proven itself and before it does so: false ends the handshake, with kUnavailable.
  awaitable<Status> handshake(Duration limit, std::function<bool()> may_prove = {});
  // The next frame, for a user who does not call start(). kUnavailable: the peer closed; kCorrupt: the peer
  // sent what is no frame. Close the connection after either.
  awaitable<Expected<wire::Frame>> receive();
  void start(OnFrame on_frame, OnClosed on_closed) override;
  void send(std::string_view frames, std::string_view more = {}) override;
  std::size_t backlog_bytes() const override { return queue_.size(); }
  // At a TLS server, who the peer has proven to be.
  const std::string& identity() const;
  bool closed() const override { return !socket_.is_open(); }
  // A pending receive() ends with kUnavailable.
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
  Status broken_;  // an error: nothing comes after frames_
  // Both functions are kept until this object goes, because one of them may call close().
  OnFrame on_frame_;
  OnClosed on_closed_;
  ByteQueue queue_;  // to be written
  bool waits_to_write_ = false;
  bool nobody_reads_ = false;        // what is sent is thrown away
  std::function<bool()> may_prove_;  // until the handshake is over
  std::unique_ptr<char[]> cipher_;   // what was read and is not decrypted yet, with TLS
};

}  // namespace muster::net
