#include "agent/io/store_server.h"

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <map>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/socket.h>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/core/store.h"
#include "common/base/file.h"
#include "common/base/log.h"

namespace muster::agent {
namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

constexpr int kAcceptsAtOnce = 64;  // then the others have their turn
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr int kWarningCount = 5;
constexpr std::size_t kReadBytes = 64 << 10;

struct Connection {
  Connection(boost::asio::io_context& io, int fd, StoreClientId number) : socket(io, fd), id(number) {}
  stream_descriptor socket;
  StoreClientId id;
  TimePoint handshake_deadline;
  bool reading = false;  // a wait for input is under way
  bool writing = false;
  std::string
      unsent;  // while not empty, nothing is read: a client that does not read its answers may not ask more
};
using ConnectionPtr = std::shared_ptr<Connection>;

bool would_block(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

}  // namespace

// Handlers hold the server, so that those that are queued when it is stopped find it, closed.
class StoreServer::Server : public std::enable_shared_from_this<Server> {
 public:
  Server(boost::asio::io_context& io, StoreServerOptions options)
      : io_(io),
        options_(std::move(options)),
        store_(options_.store),
        listener_(io),
        handshake_timer_(io),
        accept_timer_(io) {}

  Status listen();
  void start() { watch_listener(); }
  void stop();
  std::uint16_t port() const { return port_; }
  std::size_t client_count() const { return clients_.size(); }
  std::size_t stranger_count() const { return strangers_.size(); }

 private:
  void watch_listener();
  void accept_waiting();
  void accepted(int fd);
  void accept_later();
  void arm_handshake_timer();
  void drop_late_strangers();
  void read(const ConnectionPtr& connection);
  void take(const ConnectionPtr& connection, std::string_view bytes);
  void send(const ConnectionPtr& connection, std::string_view bytes);
  void send_unsent(const ConnectionPtr& connection);
  void watch(const ConnectionPtr& connection);
  void drop(ConnectionPtr connection, std::string_view reason);
  void warn(const Connection& connection, std::string_view reason);

  boost::asio::io_context& io_;
  const StoreServerOptions options_;
  Store store_;
  StoreOutput output_;
  stream_descriptor listener_;
  boost::asio::steady_timer handshake_timer_;  // armed while there are strangers
  bool handshake_timer_armed_ = false;
  boost::asio::steady_timer accept_timer_;
  std::uint16_t port_ = 0;
  StoreClientId next_id_{1};
  std::map<StoreClientId, ConnectionPtr> strangers_;  // oldest first
  std::unordered_map<StoreClientId, ConnectionPtr> clients_;
  std::size_t unsent_bytes_ = 0;
  int warning_count_ = 0;
  std::array<char, kReadBytes> buffer_;
};

Status StoreServer::Server::listen() {
  const boost::asio::ip::tcp::endpoint endpoint(options_.address, options_.port);
  const std::string what =
      fmt::format("cannot serve the c10d store on {} port {}", options_.address.to_string(), options_.port);
  UniqueFd fd(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_failure(what, errno);
  // Accepted connections inherit TCP_NODELAY.
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0)
    return system_failure(what, errno);
  if (::listen(fd.get(), SOMAXCONN) != 0) return system_failure(what, errno);
  boost::asio::ip::tcp::endpoint bound;
  auto size = static_cast<socklen_t>(bound.capacity());
  if (::getsockname(fd.get(), bound.data(), &size) != 0) return system_failure(what, errno);
  bound.resize(size);
  port_ = bound.port();
  error_code error;
  listener_.assign(fd.get(), error);
  if (error) return failure(ErrorCode::kInternal, "{}: {}", what, error.message());
  fd.release();
  return {};
}

void StoreServer::Server::stop() {
  error_code ignored;
  listener_.close(ignored);
  handshake_timer_.cancel();
  accept_timer_.cancel();
  for (const auto& [id, connection] : strangers_) connection->socket.close(ignored);
  for (const auto& [id, connection] : clients_) connection->socket.close(ignored);
  strangers_.clear();
  clients_.clear();
}

void StoreServer::Server::watch_listener() {
  listener_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](error_code error) {
    if (!error && self->listener_.is_open()) self->accept_waiting();
  });
}

void StoreServer::Server::accept_waiting() {
  for (int count = 0; count < kAcceptsAtOnce; ++count) {
    const int fd = ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      accepted(fd);
    } else if (would_block(errno)) {
      break;
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      if (strangers_.empty()) return accept_later();
      drop(strangers_.begin()->second, "no descriptors are left");
    }
    // Anything else is a connection that ended before it was taken.
  }
  watch_listener();
}

void StoreServer::Server::accepted(int fd) {
  const auto connection = std::make_shared<Connection>(io_, fd, next_id_);
  next_id_ = next_id_.next();
  connection->handshake_deadline = Clock::now() + options_.handshake;
  store_.connected(connection->id);
  strangers_.emplace(connection->id, connection);
  if (clients_.size() >= options_.client_count)
    return drop(connection, "the store has all the clients it takes");
  if (strangers_.size() > options_.stranger_count)
    drop(strangers_.begin()->second, "too many connections without a handshake");
  if (!handshake_timer_armed_) arm_handshake_timer();
  read(connection);
}

// The listening socket stays readable: waiting for that again would spin until a descriptor is free.
void StoreServer::Server::accept_later() {
  accept_timer_.expires_after(kAcceptPause);
  accept_timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error && self->listener_.is_open()) self->accept_waiting();
  });
}

void StoreServer::Server::arm_handshake_timer() {
  handshake_timer_armed_ = !strangers_.empty();
  if (!handshake_timer_armed_) return;
  handshake_timer_.expires_at(strangers_.begin()->second->handshake_deadline);
  handshake_timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error && self->listener_.is_open()) self->drop_late_strangers();
  });
}

void StoreServer::Server::drop_late_strangers() {
  const TimePoint now = Clock::now();
  while (!strangers_.empty() && strangers_.begin()->second->handshake_deadline <= now) {
    drop(strangers_.begin()->second, "no handshake in time");
  }
  arm_handshake_timer();
}

void StoreServer::Server::watch(const ConnectionPtr& connection) {
  if (!connection->unsent.empty()) {
    if (std::exchange(connection->writing, true)) return;
    connection->socket.async_wait(stream_descriptor::wait_write,
                                  [self = shared_from_this(), connection](error_code error) {
                                    connection->writing = false;
                                    if (!error && connection->socket.is_open()) self->send_unsent(connection);
                                  });
  } else if (!std::exchange(connection->reading, true)) {
    connection->socket.async_wait(stream_descriptor::wait_read,
                                  [self = shared_from_this(), connection](error_code error) {
                                    connection->reading = false;
                                    if (!error && connection->socket.is_open() && connection->unsent.empty())
                                      self->read(connection);
                                  });
  }
}

void StoreServer::Server::read(const ConnectionPtr& connection) {
  const ssize_t size = ::recv(connection->socket.native_handle(), buffer_.data(), buffer_.size(), 0);
  if (size > 0) {
    take(connection, {buffer_.data(), static_cast<std::size_t>(size)});
  } else if (size == 0 || !would_block(errno)) {
    return drop(connection, {});
  }
  if (connection->socket.is_open()) watch(connection);
}

void StoreServer::Server::take(const ConnectionPtr& connection, std::string_view bytes) {
  const Status fed = store_.feed(connection->id, bytes, output_);
  if (!output_.reply.empty()) send(connection, output_.reply);
  for (const StoreClientId id : output_.released) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) continue;
    const ConnectionPtr released = found->second;
    send(released, {&kStopWaiting, 1});
  }
  if (!connection->socket.is_open()) return;
  if (!fed) return drop(connection, fed.error().message());
  const auto stranger = strangers_.find(connection->id);
  if (stranger == strangers_.end() || !store_.validated(connection->id)) return;
  strangers_.erase(stranger);
  clients_.emplace(connection->id, connection);
}

void StoreServer::Server::send(const ConnectionPtr& connection, std::string_view bytes) {
  if (connection->unsent.empty()) {
    const ssize_t size = ::send(connection->socket.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size < 0 && !would_block(errno)) return drop(connection, {});
    if (size > 0) bytes.remove_prefix(static_cast<std::size_t>(size));
    if (bytes.empty()) return;
  }
  if (unsent_bytes_ + bytes.size() > options_.unsent_bytes)
    return drop(connection, "too many replies are not read");
  connection->unsent.append(bytes);
  unsent_bytes_ += bytes.size();
  watch(connection);
}

void StoreServer::Server::send_unsent(const ConnectionPtr& connection) {
  std::string& unsent = connection->unsent;
  const ssize_t size = ::send(connection->socket.native_handle(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
  if (size < 0 && !would_block(errno)) return drop(connection, {});
  if (size > 0) {
    unsent_bytes_ -= static_cast<std::size_t>(size);
    unsent.erase(0, static_cast<std::size_t>(size));
    if (unsent.empty()) unsent.shrink_to_fit();
  }
  watch(connection);
}

// An empty reason: the client has closed the connection.
void StoreServer::Server::drop(ConnectionPtr connection, std::string_view reason) {
  if (!reason.empty()) warn(*connection, reason);
  store_.disconnected(connection->id);
  unsent_bytes_ -= connection->unsent.size();
  strangers_.erase(connection->id);
  clients_.erase(connection->id);
  error_code ignored;
  connection->socket.close(ignored);
}

void StoreServer::Server::warn(const Connection& connection, std::string_view reason) {
  if (warning_count_ == kWarningCount) return;
  ++warning_count_;
  log::warning("c10d store on port {}: connection {} is dropped: {}{}", port_, connection.id, reason,
               warning_count_ == kWarningCount ? "; no more of these are reported" : "");
}

Expected<StoreServer> StoreServer::open(boost::asio::io_context& io, const StoreServerOptions& options) {
  const auto server = std::make_shared<Server>(io, options);
  if (Status listening = server->listen(); !listening) return std::unexpected(listening.error());
  server->start();
  return StoreServer(server);
}

StoreServer& StoreServer::operator=(StoreServer&& other) noexcept {
  stop();
  server_ = std::move(other.server_);
  return *this;
}

std::uint16_t StoreServer::port() const {
  return server_->port();
}
std::size_t StoreServer::client_count() const {
  return server_->client_count();
}
std::size_t StoreServer::stranger_count() const {
  return server_->stranger_count();
}

void StoreServer::stop() {
  if (server_) server_->stop();
}

}  // namespace muster::agent
