// Connects to a listener over TLS: at one address, or at the first of several addresses where it proves that
// it has the key.
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

// Connects to a listener and completes the handshake. A listener with too many unproven connections closes a
// connection before it has sent anything. If this happens, connect() tries again until `limit` has passed.
awaitable<Expected<std::shared_ptr<Connection>>> connect(std::string address, std::uint16_t port,
                                                         std::string identity, Key key, Duration limit);

// Connects to all of `listeners`, which are addresses of one listener, at the same time. Proves this side's
// identity only on the first connection whose peer proves to have the key, and closes the other connections.
// The error has a clause for each address.
awaitable<Expected<std::shared_ptr<Connection>>> connect_to_any(std::vector<Endpoint> listeners,
                                                                std::string identity, Key key,
                                                                Duration limit);

}  // namespace muster::net
