#include "runtime/comm/address.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>

namespace muster {

Expected<std::string> address_towards(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) return failure(ErrorCode::kNotFound, "cannot resolve {}: {}", host, gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  int last_error = 0;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    // Connecting a datagram socket sends nothing: the kernel only chooses the route and the local address.
    const UniqueFd fd(socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    char text[NI_MAXHOST];
    if (fd && connect(fd.get(), entry->ai_addr, entry->ai_addrlen) == 0 &&
        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &length) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&local), length, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) == 0)
      return std::string(text);
    last_error = errno;
  }
  return system_failure(fmt::format("no route to {}", host), last_error);
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// Accepts an address only if it is numeric. So this function asks no name server.
std::optional<SocketAddress> numeric_address(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  SocketAddress result;
  result.length = found->ai_addrlen;
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  return result;
}

Expected<Listener> listen_at(const std::string& address, std::uint16_t port, int more_flags = 0) {
  auto socket_address = numeric_address(address, port);
  if (!socket_address) return failure(ErrorCode::kInvalidArgument, "{} is not an address", address);
  const int flags = SOCK_STREAM | SOCK_CLOEXEC | more_flags;
  Listener listener{UniqueFd(socket(socket_address->storage.ss_family, flags, 0)), 0};
  const int on = 1;
  if (!listener.fd || setsockopt(listener.fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(listener.fd.get(), socket_address->get(), socket_address->length) != 0 ||
      listen(listener.fd.get(), SOMAXCONN) != 0 ||
      getsockname(listener.fd.get(), socket_address->get(), &socket_address->length) != 0)
    return system_failure(fmt::format("cannot listen on {}:{}", address, port), errno);
  // sockaddr_in6 has its port at the same place as sockaddr_in.
  listener.port = ntohs(reinterpret_cast<sockaddr_in*>(&socket_address->storage)->sin_port);
  return listener;
}

}  // namespace

Expected<Listener> listen_on_loopback(std::uint16_t port) {
  return listen_at("127.0.0.1", port);
}

Expected<Listener> listen_on(const std::string& address) {
  return listen_at(address, 0, SOCK_NONBLOCK);
}

void turn_away(const Listener& listener) {
  while (UniqueFd(accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC))) {
  }
}

bool refuses(const std::string& address, std::uint16_t port, std::chrono::milliseconds limit) {
  auto socket_address = numeric_address(address, port);
  if (!socket_address) return false;
  const UniqueFd fd(socket(socket_address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return false;
  if (connect(fd.get(), socket_address->get(), socket_address->length) == 0) return false;
  if (errno != EINPROGRESS) return errno == ECONNREFUSED;
  pollfd ready{fd.get(), POLLOUT, 0};
  if (poll(&ready, 1, static_cast<int>(limit.count())) <= 0) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == ECONNREFUSED;
}

}  // namespace muster
