// Connects to listeners over TLS: to one, or to the first of several that proves that it has the key.
//
// Addresses are numeric, so that nothing waits for a name server. Call the functions on one thread.
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

// Connects to a listener and completes the handshake. A listener with too many callers closes connections
// before it has sent anything. If that happens, connect() tries again until `limit`.
awaitable<Expected<std::shared_ptr<Connection>>> connect(std::string address, std::uint16_t port,
                                                         std::string identity, Key key, Duration limit);

// Does the same with all of `listeners`, the addresses of one listener, at once. Proves this side's identity
// to the first that proves to have the key, and closes the other connections. The error has a clause for
// each.
awaitable<Expected<std::shared_ptr<Connection>>> connect_to_any(std::vector<Endpoint> listeners,
                                                                std::string identity, Key key,
                                                                Duration limit);

}  // namespace muster::net
