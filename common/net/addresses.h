// The addresses of this host, as its kernel lists them now.
//
// Plain functions; safe in any thread.
#pragma once

#include <string>
#include <vector>

namespace muster::net {

struct HostAddress {
  std::string interface;
  std::string address;  // IPv4 or IPv6, as a number
  int prefix_bits = 0;
  bool loopback = false;
};

// Of interfaces that are up, without link-local ones, which mean nothing elsewhere. In the kernel's order.
std::vector<HostAddress> host_addresses();

// "eth0 10.77.0.10/24" for each that is not loopback: what an agent's Hello says.
std::vector<std::string> addresses_to_tell();

}  // namespace muster::net
