// Reserves the port of an attempt's c10d store: binds a socket that does not listen yet.
//
// As long as it does not listen, another process can bind the same port and listen on it, if it sets
// SO_REUSEADDR as torch's TCPStore does. But the kernel does not give the port to a process that asks for any
// free port.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster::agent {

struct StorePort {
  UniqueFd socket;  // TCP, non-blocking; accepted connections send without delay
  std::uint16_t number = 0;
};

// Binds the socket; `port` 0: to any free port. Errors: the address is not of this machine, or another
// process listens on the port.
Expected<StorePort> bind_store_port(const boost::asio::ip::address& address, std::uint16_t port);

}  // namespace muster::agent
