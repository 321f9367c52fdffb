// Reserves the port of an attempt's c10d store, by binding a socket that does not listen yet.
//
// Another process can still bind the same port and listen on it, if it sets SO_REUSEADDR, as torch's TCPStore
// does. But if a process asks for any free port, the kernel does not give it this one.
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

// Binds a socket to the address and to `port`. If `port` is 0, the system chooses a free port. Returns an
// error if the address is not of this machine, or if another process listens on the port.
Expected<StorePort> bind_store_port(const boost::asio::ip::address& address, std::uint16_t port);

}  // namespace muster::agent
