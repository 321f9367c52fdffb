// Accepts TLS connections, and passes on those whose peer proves that it has a key.
//
// Strangers cannot block others:
// - A handshake has a deadline.
// - If too many handshakes are under way, the oldest connection whose peer has sent nothing is dropped.
// - If all peers have sent something, a new connection waits up to a second for one of them to finish. Then
//   the oldest is dropped.
// - If too many of them are from one address, a new connection from this address is dropped.
// Use a Listener on one thread. To end it, call stop(), then wait until the owner's TaskGroup is empty.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "common/net/connection.h"
#include "common/net/task_group.h"

namespace muster::net {

class Listener {
 public:
  struct Limits {
    Duration handshake = std::chrono::seconds(5);
    std::size_t unproven_count = 256;  // connections whose handshake is under way
    std::size_t unproven_of_an_address = SIZE_MAX;
  };
  using OnConnection = std::function<void(std::shared_ptr<Connection>)>;

  // Opens the port. Connections wait until start() is called. If `port` is 0, the system chooses a free port.
  // The message of an error has the address and the port.
  static Expected<std::unique_ptr<Listener>> open(const asio::any_io_executor& executor,
                                                  const std::string& address, std::uint16_t port);
  std::uint16_t port() const;
  // Starts to accept connections, in coroutines of `tasks`. `tasks` must outlive all of them.
  void start(const Tls& tls, TaskGroup& tasks, TlsSession::FindKey find_key, OnConnection on_connection,
             Limits limits);
  void stop();

 private:
  explicit Listener(asio::ip::tcp::acceptor acceptor)
      : acceptor_(std::move(acceptor)), room_(acceptor_.get_executor()) {}
  awaitable<void> accept_all();
  awaitable<void> make_room();
  struct Unproven {
    std::shared_ptr<Connection> connection;
    asio::ip::address address;  // of the peer
    TimePoint since{};
  };
  awaitable<void> prove(Unproven unproven);
  bool has_too_many(const asio::ip::address& address) const;

  const Tls* tls_ = nullptr;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer room_;  // cancelled when a handshake has ended
  TaskGroup* tasks_ = nullptr;
  TlsSession::FindKey find_key_;
  OnConnection on_connection_;
  Limits limits_;
  std::list<Unproven> unproven_;  // oldest first
};

}  // namespace muster::net
