// Addresses and sockets through which the ranks of a world find each other.
//
// The functions run on the caller's thread and can block. None of them sends data.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster {

// Returns the address of this machine from which it reaches `host`: for a loopback host, a loopback address.
Expected<std::string> address_towards(const std::string& host, std::uint16_t port);

bool is_loopback(const std::string& address);

struct Listener {
  UniqueFd fd;
  std::uint16_t port = 0;
};
// Listens on 127.0.0.1; port 0 lets the kernel choose.
Expected<Listener> listen_on_loopback(std::uint16_t port);
// Listens on an address of this machine, at a port that the kernel chooses; accept() does not block.
Expected<Listener> listen_on(const std::string& address);
// Closes the connections that wait to be accepted at a listener of listen_on(). Does not block.
void turn_away(const Listener& listener);

// True if a connection to this address is refused within `limit`: the machine is up, and nobody listens.
bool refuses(const std::string& address, std::uint16_t port, std::chrono::milliseconds limit);

}  // namespace muster
