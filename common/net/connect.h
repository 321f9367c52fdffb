// Connects to a listener over TLS. The caller gives one address of the listener, or several. With several
// addresses, connects to all of them. As soon as the listener has proved on one connection that it has the
// key, that connection is used.
//
// Addresses are numeric, so that no name server is needed. Call the functions on one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/net/connection.h"

namespace muster::net {

struct Endpoint {
  std::string address;  // an IPv6 address without brackets
  std::uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

// Connects to a listener and completes the handshake. If a listener has too many connections that have proved
// nothing yet, it closes a new connection before it has sent anything. In that case connect() tries again,
// until `limit` has passed.
awaitable<Expected<std::shared_ptr<Connection>>> connect(std::string address, std::uint16_t port,
                                                         std::string identity, Key key, Duration limit);

// Connects to all of `listeners` at the same time. They are addresses of one and the same listener. On the
// first connection whose peer proves that it has the key, this side proves its identity. The other
// connections are closed, and this side proves nothing on them. An error has a clause for each address.
awaitable<Expected<std::shared_ptr<Connection>>> connect_to_any(std::vector<Endpoint> listeners,
                                                                std::string identity, Key key,
                                                                Duration limit);

}  // namespace muster::net
