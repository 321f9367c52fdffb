// Finds the network interface on which a node reaches another.
#pragma once

#include <string>

namespace muster::agent {

// The interface that has `address`, or from which this host reaches it; sends nothing. Empty if that is
// loopback, if no route exists, or if `address` is not an IPv4 or IPv6 address.
std::string interface_to(const std::string& address);

}  // namespace muster::agent
