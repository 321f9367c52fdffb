#include "agent/io/store/store_port.h"

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace muster::agent {

Expected<StorePort> bind_store_port(const boost::asio::ip::address& address, std::uint16_t port) {
  const boost::asio::ip::tcp::endpoint endpoint(address, port);
  const auto failed = [&] {
    return system_failure(fmt::format("cannot serve the c10d store on {} port {}", address.to_string(), port),
                          errno);
  };
  UniqueFd socket(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed();
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::bind(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) return failed();
  boost::asio::ip::tcp::endpoint bound;
  auto size = static_cast<socklen_t>(bound.capacity());
  if (::getsockname(socket.get(), bound.data(), &size) != 0) return failed();
  bound.resize(size);
  return StorePort{std::move(socket), bound.port()};
}

}  // namespace muster::agent
