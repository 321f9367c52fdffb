#include "common/net/listener.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "common/base/log.h"

namespace muster::net {

using asio::ip::tcp;

namespace {

constexpr Duration kPatience = std::chrono::seconds(1);

}  // namespace

Expected<std::unique_ptr<Listener>> Listener::open(const asio::any_io_executor& executor,
                                                   const std::string& address, std::uint16_t port) {
  boost::system::error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  tcp::acceptor acceptor(executor);
  const tcp::endpoint endpoint(parsed, port);
  if (!error) acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) return system_failure(fmt::format("cannot listen on {} port {}", address, port), error.value());
  return std::unique_ptr<Listener>(new Listener(std::move(acceptor)));
}

std::uint16_t Listener::port() const {
  return acceptor_.local_endpoint().port();
}

void Listener::start(const Tls& tls, TaskGroup& tasks, TlsSession::FindKey find_key,
                     OnConnection on_connection, Limits limits) {
  tls_ = &tls;
  tasks_ = &tasks;
  find_key_ = std::move(find_key);
  on_connection_ = std::move(on_connection);
  limits_ = limits;
  tasks.spawn(accept_all());
}

void Listener::stop() {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  room_.cancel();
  for (const Unproven& each : unproven_) each.connection->close();
}

awaitable<void> Listener::accept_all() {
  asio::steady_timer pause(acceptor_.get_executor());
  for (;;) {
    co_await make_room();
    if (!acceptor_.is_open()) break;
    boost::system::error_code error;
    tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted) break;
    if (error) {
      // Probably no descriptors are left. accept() would fail again at once, so the loop waits a moment.
      log::warning("cannot accept a connection: {}", error.message());
      pause.expires_after(std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    const asio::ip::address peer = socket.remote_endpoint(error).address();
    if (error || has_too_many(peer)) continue;
    socket.set_option(tcp::no_delay(true), error);
    tasks_->spawn(prove({Connection::make(std::move(socket), tls_->server(find_key_)), peer, Clock::now()}));
  }
}

// Waits until another connection may be accepted. When thousands of agents call at once, dropping those that
// are in the middle of a handshake would fail them. A silent one may be an agent, too, but that agent calls
// again.
awaitable<void> Listener::make_room() {
  while (acceptor_.is_open() && unproven_.size() >= limits_.unproven_count) {
    const TimePoint latest = Clock::now() - kPatience;
    const auto dropped = std::ranges::find_if(unproven_, [latest](const Unproven& each) {
      return !each.connection->closed() && (each.connection->silent() || each.since <= latest);
    });
    if (dropped != unproven_.end()) {
      dropped->connection->close();
      co_return;
    }
    boost::system::error_code ignored;
    room_.expires_at(unproven_.front().since + kPatience);
    co_await room_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

bool Listener::has_too_many(const asio::ip::address& address) const {
  const auto of_it = std::ranges::count(unproven_, address, &Unproven::address);
  return static_cast<std::size_t>(of_it) >= limits_.unproven_of_an_address;
}

awaitable<void> Listener::prove(Unproven unproven) {
  const auto place = unproven_.insert(unproven_.end(), unproven);
  const std::shared_ptr<Connection> connection = std::move(unproven.connection);
  const Status proven = co_await connection->handshake(limits_.handshake);
  unproven_.erase(place);
  room_.cancel();
  if (proven && acceptor_.is_open()) {
    on_connection_(connection);
  } else {
    log::debug("dropped a connection: {}", proven ? "the listener is stopped" : proven.error().message());
    connection->close();
  }
}

}  // namespace muster::net
