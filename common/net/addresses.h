// Lists the addresses of this host.
//
// Safe from any thread.
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

// Returns the addresses of all interfaces that are up, in the order of the kernel. Link-local addresses are
// left out, because other hosts cannot use them.
std::vector<HostAddress> host_addresses();

// Returns the addresses that an agent reports in its Hello, for example "eth0 10.77.0.10/24". Loopback
// addresses are left out.
std::vector<std::string> addresses_to_tell();

}  // namespace muster::net
