// Which network interface a node uses to reach another.
#pragma once

#include <string>

namespace muster::agent {

// The interface that has `address`, or from which this host reaches it; nothing is sent. Empty if that is
// loopback, if there is no way there, or if `address` is no IPv4 or IPv6 address.
std::string interface_to(const std::string& address);

}  // namespace muster::agent
