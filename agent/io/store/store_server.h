// Serves the c10d store of one attempt (core/store/store.h) over TCP.
//
// Listens from open() to stop(), on the io_context's one thread.
// - A connection that has not shown that it speaks the protocol is a stranger. A stranger is dropped after
//   `handshake`. The oldest stranger is dropped if there are more than `stranger_count`, or if no descriptors
//   are left. Clients are not dropped for these reasons.
// - A client that breaks the protocol or a limit loses its connection, and the reason is logged.
// - On loopback, only processes of this process's user and of root, and descendants of this agent and its
//   launcher, are allowed to connect. A connection of another user may wait a moment until the server has
//   found out whose it is. The server spends at most a tenth of this thread's time on this.
// - On other addresses, any process on a host with one of the peers' addresses is allowed to connect. So
//   listen on an address that no more hosts than necessary can reach.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "agent/core/store/store_wire.h"
#include "common/base/clock.h"
#include "common/base/error.h"

namespace muster::agent {

struct StoreServerOptions {
  boost::asio::ip::address address = boost::asio::ip::address_v4::loopback();  // to listen on
  std::uint16_t port = 0;                                                      // 0: any free one
  std::vector<boost::asio::ip::address> peers = {};  // addresses that are allowed to connect; empty: all
  pid_t launcher = 0;  // its descendants are allowed to connect while it is this process's parent; 0: none
  Duration handshake = std::chrono::seconds(10);
  std::size_t stranger_count = 256;
  std::size_t client_count = 64 << 10;
  std::size_t unsent_bytes = 256 << 20;  // of unread replies, for all clients together
  StoreLimits store = {};
  // Called when a connection is refused because it does not come from the job. The text says whose connection
  // it is.
  std::function<void(const std::string&)> on_refused = {};
};

class StoreServer {
 public:
  // When this returns, the store listens. Returns an error if the address is not of this machine, or if the
  // port is taken.
  static Expected<StoreServer> open(boost::asio::io_context& io, const StoreServerOptions& options);
  StoreServer(StoreServer&&) noexcept = default;
  StoreServer& operator=(StoreServer&& other) noexcept;
  ~StoreServer() { stop(); }

  std::uint16_t port() const;
  std::size_t client_count() const;
  std::size_t stranger_count() const;

  // Closes the port and every connection now. A second call has no effect.
  void stop();

 private:
  class Server;
  explicit StoreServer(std::shared_ptr<Server> server) : server_(std::move(server)) {}

  std::shared_ptr<Server> server_;
};

}  // namespace muster::agent
