// The port of an attempt's c10d store: a socket that is bound but does not listen yet.
//
// Any holder of the socket can listen on it. Until then another process that sets SO_REUSEADDR, as torch's
// TCPStore does, can bind the same port and listen; but the kernel does not give the port to a process that
// asks for any free one.
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

// `port` 0 takes any free port. Errors: the address is not of this machine, or another process listens on the
// port.
Expected<StorePort> bind_store_port(const boost::asio::ip::address& address, std::uint16_t port);

}  // namespace muster::agent
