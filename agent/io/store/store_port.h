// The port of an attempt's c10d store: a socket that is bound to it and does not listen yet.
//
// Whoever holds it can listen on it. While nobody listens, another process that sets SO_REUSEADDR, as torch's
// TCPStore does, can bind the same port and listen there; the kernel gives it to nobody who asks for any free
// one.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster::agent {

struct StorePort {
  UniqueFd socket;  // of TCP, non-blocking; connections that are accepted from it send without delay
  std::uint16_t number = 0;
};

// `port` 0 takes any free one. Errors: the address is not of this machine, or somebody listens on the port.
Expected<StorePort> bind_store_port(const boost::asio::ip::address& address, std::uint16_t port);

}  // namespace muster::agent
