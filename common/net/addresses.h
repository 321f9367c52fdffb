// The addresses of this host, as the kernel lists them now.
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

// Returns the addresses of interfaces that are up, in the kernel's order. Leaves out link-local ones, which
// mean nothing on other hosts.
std::vector<HostAddress> host_addresses();

// "eth0 10.77.0.10/24" for each address that is not loopback: what an agent reports in its Hello.
std::vector<std::string> addresses_to_tell();

}  // namespace muster::net
