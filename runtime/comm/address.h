// Addresses and sockets through which the ranks of a world find each other.
//
// The functions run on the thread of the caller, which may have to wait in them. None of them sends data.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster {

// Returns the address of this machine that a connection to `host` comes from. If `host` is a loopback
// address, the result is one, too.
Expected<std::string> address_towards(const std::string& host, std::uint16_t port);

bool is_loopback(const std::string& address);

struct Listener {
  UniqueFd fd;
  std::uint16_t port = 0;
};
// Listens on 127.0.0.1. If `port` is 0, the kernel chooses the port.
Expected<Listener> listen_on_loopback(std::uint16_t port);
// Listens on an address of this machine. The kernel chooses the port. accept() on the listener's socket does
// not block.
Expected<Listener> listen_on(const std::string& address);
// Connections can wait at a listener of listen_on() until they are accepted. Closes these connections. This
// function does not block.
void turn_away(const Listener& listener);

// Returns true if a connection to this address is refused within `limit`. This means that the machine is
// running, but no process listens at this port.
bool refuses(const std::string& address, std::uint16_t port, std::chrono::milliseconds limit);

}  // namespace muster
