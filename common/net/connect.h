// Connecting to listeners over TLS: to one, or to that of several which is the first to prove its key.
//
// Addresses are numbers, so that nothing waits for a name server. One thread.
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

// Connects to a listener and completes the handshake. One that closes the connection before it says anything
// has too many callers just now, and is called again.
awaitable<Expected<std::shared_ptr<Connection>>> connect(std::string address, std::uint16_t port,
                                                         std::string identity, Key key, Duration limit);

// The same with all of `listeners` at once, which are one listener's addresses: the first that proves to have
// the key is the one to whom this side proves itself, the others are closed. The error has a clause for each.
awaitable<Expected<std::shared_ptr<Connection>>> connect_to_any(std::vector<Endpoint> listeners,
                                                                std::string identity, Key key,
                                                                Duration limit);

}  // namespace muster::net
