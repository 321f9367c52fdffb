#include "agent/io/store/store_server.h"

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>

#include "agent/core/store/store.h"
#include "agent/io/store/socket_owners.h"
#include "agent/io/store/store_port.h"
#include "common/base/file.h"
#include "common/base/log.h"

namespace muster::agent {
namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

constexpr int kAcceptsAtOnce = 64;  // after that, other events of the server have their turn
constexpr int kEventsAtOnce = 64;   // after that, the other tasks of the agent have their turn
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr int kWarningCount = 5;
constexpr std::size_t kReadBytes = 64 << 10;
constexpr StoreClientId kListener{0};

struct Connection {
  UniqueFd socket;
  // The replies that are not sent yet. As long as there are any, the server reads nothing from this client.
  // So a client that does not read its replies cannot cause more of them.
  std::string unsent;
};

bool would_block(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

bool out_of_descriptors(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS ||
         error_number == ENOMEM;
}

}  // namespace

// The sockets have an epoll set of their own, and the io_context watches only the descriptor of that set. So
// a message takes two system calls, recv and send. With Asio's own waits, a message would take a third system
// call. A handler that is still queued keeps the server alive after the server was stopped.
class StoreServer::Server : public std::enable_shared_from_this<Server> {
 public:
  Server(boost::asio::io_context& io, StoreServerOptions options)
      : options_(std::move(options)),
        store_(options_.store),
        look_timer_(io),
        epoll_(io),
        handshake_timer_(io),
        accept_timer_(io) {}

  Status listen();
  void watch_epoll();
  void stop();
  std::uint16_t port() const { return port_; }
  std::size_t client_count() const { return connections_.size() - strangers_.size(); }
  std::size_t stranger_count() const { return strangers_.size(); }

 private:
  bool watch(int operation, int fd, StoreClientId id, std::uint32_t events);
  void serve_ready();
  void accept_waiting();
  void accept_later();
  void accepted(UniqueFd socket);
  static boost::asio::ip::address peer_of(int socket);
  void look_soon();
  void look();
  void refuse(StoreClientId id, const std::string& who);
  void arm_handshake_timer();
  void drop_late_strangers();
  void read(StoreClientId id, int fd);
  void take(StoreClientId id, std::string_view bytes);
  void send(StoreClientId id, std::string_view bytes);
  void send_unsent(StoreClientId id, Connection& connection);
  void drop(StoreClientId id, std::string_view reason);
  void warn(StoreClientId id, std::string_view reason);

  const StoreServerOptions options_;
  Store store_;
  StoreOutput output_;
  UniqueFd listener_;
  std::optional<SocketOwners> owners_;  // while it listens on loopback, and the kernel answers
  std::map<StoreClientId, SocketOwners::Owner> unknown_;  // of other users, not checked by look() yet
  boost::asio::steady_timer look_timer_;                  // armed while `unknown_` is not empty
  TimePoint next_look_;
  stream_descriptor epoll_;
  boost::asio::steady_timer handshake_timer_;  // armed while there are strangers
  bool handshake_timer_armed_ = false;
  boost::asio::steady_timer accept_timer_;
  std::uint16_t port_ = 0;
  StoreClientId next_id_ = kListener.next();
  std::unordered_map<StoreClientId, Connection> connections_;
  // the connections without a handshake, with their deadlines; the oldest one comes first
  std::map<StoreClientId, TimePoint> strangers_;
  std::size_t unsent_bytes_ = 0;
  int warning_count_ = 0;
  std::array<char, kReadBytes> buffer_;
};

Status StoreServer::Server::listen() {
  const std::string what =
      fmt::format("cannot serve the c10d store on {} port {}", options_.address.to_string(), options_.port);
  auto bound = bind_store_port(options_.address, options_.port);
  if (!bound) return std::unexpected(bound.error());
  listener_ = std::move(bound->socket);
  port_ = bound->number;
  if (::listen(listener_.get(), SOMAXCONN) != 0) return system_failure(what, errno);
  if (options_.address.is_loopback()) owners_.emplace(listener_.get());
  if (owners_ && !owners_->can_tell()) {
    log::warning(
        "other users of this machine can reach the c10d store: "
        "the kernel does not tell which user owns which socket");
    owners_.reset();
  }
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_failure(what, errno);
  error_code error;
  epoll_.assign(epoll.get(), error);
  if (error) return failure(ErrorCode::kInternal, "{}: {}", what, error.message());
  epoll.release();
  if (!watch(EPOLL_CTL_ADD, listener_.get(), kListener, EPOLLIN)) return system_failure(what, errno);
  return {};
}

void StoreServer::Server::stop() {
  error_code ignored;
  epoll_.close(ignored);
  handshake_timer_.cancel();
  accept_timer_.cancel();
  look_timer_.cancel();
  listener_.reset();
  unknown_.clear();
  connections_.clear();
  strangers_.clear();
}

bool StoreServer::Server::watch(int operation, int fd, StoreClientId id, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id.value();
  return ::epoll_ctl(epoll_.native_handle(), operation, fd, &event) == 0;
}

void StoreServer::Server::watch_epoll() {
  epoll_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](error_code error) {
    if (error || !self->epoll_.is_open()) return;
    self->serve_ready();
    self->watch_epoll();
  });
}

void StoreServer::Server::serve_ready() {
  std::array<epoll_event, kEventsAtOnce> events;
  const int count = ::epoll_wait(epoll_.native_handle(), events.data(), kEventsAtOnce, 0);
  for (int index = 0; index < count; ++index) {
    const StoreClientId id(events[static_cast<std::size_t>(index)].data.u64);
    if (id == kListener) {
      accept_waiting();
      continue;
    }
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;  // just dropped
    if (found->second.unsent.empty()) {
      read(id, found->second.socket.get());
    } else {
      send_unsent(id, found->second);
    }
  }
}

void StoreServer::Server::accept_waiting() {
  for (int count = 0; count < kAcceptsAtOnce; ++count) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      accepted(std::move(socket));
    } else if (would_block(errno)) {
      return;
    } else if (out_of_descriptors(errno)) {
      if (strangers_.empty()) return accept_later();
      drop(strangers_.begin()->first, "no descriptors are left");
    }
    // Any other error means that the connection ended before it was accepted.
  }
}

// Stops accepting connections for kAcceptPause. The listening socket stays readable. So without this pause,
// the thread would spin until a descriptor is free.
void StoreServer::Server::accept_later() {
  watch(EPOLL_CTL_MOD, listener_.get(), kListener, 0);
  accept_timer_.expires_after(kAcceptPause);
  accept_timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error && self->listener_) self->watch(EPOLL_CTL_MOD, self->listener_.get(), kListener, EPOLLIN);
  });
}

void StoreServer::Server::accepted(UniqueFd socket) {
  if (client_count() >= options_.client_count)
    return warn(next_id_, "the store has as many clients as it allows");
  const int fd = socket.get();
  const StoreClientId id = std::exchange(next_id_, next_id_.next());
  const auto peer = peer_of(fd);
  if (!options_.peers.empty() && std::ranges::find(options_.peers, peer) == options_.peers.end())
    return refuse(id, fmt::format("from {}: not an address of this job's hosts", peer.to_string()));
  // The owner is unknown if the client has already closed its connection. Then nobody waits for an answer.
  const uid_t own = ::geteuid();
  const auto owner = owners_ ? owners_->of_other_end(fd) : SocketOwners::Owner{.user = own};
  if (!owner) return warn(id, "it was closed at once");
  if (owner->user == own || owner->user == 0) {  // root is allowed everything anyway
    if (!watch(EPOLL_CTL_ADD, fd, id, EPOLLIN)) return warn(id, "it cannot be watched");
  } else {
    unknown_.emplace(id, *owner);
    look_soon();
  }
  store_.connected(id);
  connections_.emplace(id, Connection{std::move(socket), {}});
  strangers_.emplace(id, Clock::now() + options_.handshake);
  if (strangers_.size() > options_.stranger_count)
    drop(strangers_.begin()->first, "too many connections without a handshake");
  if (!handshake_timer_armed_) arm_handshake_timer();
}

boost::asio::ip::address StoreServer::Server::peer_of(int socket) {
  boost::asio::ip::tcp::endpoint peer;
  socklen_t size = static_cast<socklen_t>(peer.capacity());
  if (::getpeername(socket, peer.data(), &size) != 0) return {};
  peer.resize(size);
  return peer.address();
}

void StoreServer::Server::look_soon() {
  if (unknown_.size() > 1) return;  // the timer is armed
  look_timer_.expires_at(next_look_);
  look_timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error && self->listener_) self->look();
  });
}

// Looks at the connections that processes of other users have made. Keeps a connection if its process belongs
// to this job, and refuses the others.
void StoreServer::Server::look() {
  const TimePoint began = Clock::now();
  std::set<pid_t> ancestors{::getpid()};
  if (options_.launcher != 0 && options_.launcher == ::getppid()) ancestors.insert(options_.launcher);
  const JobSockets sockets = JobSockets::below(ancestors);
  for (const auto& [id, owner] : std::exchange(unknown_, {})) {
    if (!sockets.has(owner)) {
      refuse(id, fmt::format("of uid {}: no process of this job has made it", owner.user));
    } else if (!watch(EPOLL_CTL_ADD, connections_.at(id).socket.get(), id, EPOLLIN)) {
      drop(id, "it cannot be watched");
    }
  }
  const TimePoint now = Clock::now();
  next_look_ = now + 9 * (now - began);
}

void StoreServer::Server::refuse(StoreClientId id, const std::string& who) {
  if (options_.on_refused) options_.on_refused(who);
  warn(id, "it is another user's or another host's");
  drop(id, {});
}

void StoreServer::Server::arm_handshake_timer() {
  handshake_timer_armed_ = !strangers_.empty();
  if (!handshake_timer_armed_) return;
  handshake_timer_.expires_at(strangers_.begin()->second);
  handshake_timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error && self->listener_) self->drop_late_strangers();
  });
}

void StoreServer::Server::drop_late_strangers() {
  const TimePoint now = Clock::now();
  while (!strangers_.empty() && strangers_.begin()->second <= now)
    drop(strangers_.begin()->first, "no handshake in time");
  arm_handshake_timer();
}

void StoreServer::Server::read(StoreClientId id, int fd) {
  const ssize_t size = ::recv(fd, buffer_.data(), buffer_.size(), 0);
  if (size > 0) {
    take(id, {buffer_.data(), static_cast<std::size_t>(size)});
  } else if (size == 0 || !would_block(errno)) {
    drop(id, {});
  }
}

void StoreServer::Server::take(StoreClientId id, std::string_view bytes) {
  const Status fed = store_.feed(id, bytes, output_);
  if (!strangers_.empty() && store_.validated(id)) strangers_.erase(id);
  if (!output_.reply.empty()) send(id, output_.reply);
  for (const StoreClientId released : output_.released) send(released, {&kStopWaiting, 1});
  if (!fed) drop(id, fed.error().message());
}

void StoreServer::Server::send(StoreClientId id, std::string_view bytes) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;  // just dropped
  Connection& connection = found->second;
  if (connection.unsent.empty()) {
    const ssize_t size = ::send(connection.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size < 0 && !would_block(errno)) return drop(id, {});
    if (size > 0) bytes.remove_prefix(static_cast<std::size_t>(size));
    if (bytes.empty()) return;
    watch(EPOLL_CTL_MOD, connection.socket.get(), id, EPOLLOUT);
  }
  if (unsent_bytes_ + bytes.size() > options_.unsent_bytes) return drop(id, "it has too many unread replies");
  connection.unsent.append(bytes);
  unsent_bytes_ += bytes.size();
}

void StoreServer::Server::send_unsent(StoreClientId id, Connection& connection) {
  std::string& unsent = connection.unsent;
  const ssize_t size = ::send(connection.socket.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
  if (size < 0 && !would_block(errno)) return drop(id, {});
  if (size <= 0) return;
  unsent_bytes_ -= static_cast<std::size_t>(size);
  unsent.erase(0, static_cast<std::size_t>(size));
  if (!unsent.empty()) return;
  unsent.shrink_to_fit();
  watch(EPOLL_CTL_MOD, connection.socket.get(), id, EPOLLIN);
}

// Closes the connection, and logs `reason`. If `reason` is empty, the client itself has closed the
// connection, and nothing is logged.
void StoreServer::Server::drop(StoreClientId id, std::string_view reason) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (!reason.empty()) warn(id, reason);
  store_.disconnected(id);
  unsent_bytes_ -= found->second.unsent.size();
  strangers_.erase(id);
  unknown_.erase(id);
  connections_.erase(found);
}

void StoreServer::Server::warn(StoreClientId id, std::string_view reason) {
  if (warning_count_ == kWarningCount) return;
  ++warning_count_;
  log::warning("c10d store on port {}: connection {} is dropped: {}{}", port_, id, reason,
               warning_count_ == kWarningCount ? "; further drops are not reported" : "");
}

Expected<StoreServer> StoreServer::open(boost::asio::io_context& io, const StoreServerOptions& options) {
  const auto server = std::make_shared<Server>(io, options);
  if (Status listening = server->listen(); !listening) return std::unexpected(listening.error());
  server->watch_epoll();
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
