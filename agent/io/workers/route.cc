#include "agent/io/workers/route.h"

#include <algorithm>
#include <boost/asio/ip/udp.hpp>
#include <vector>

#include "common/net/addresses.h"
#include "common/net/asio.h"

namespace muster::agent {

namespace {

constexpr std::uint16_t kAnyPort = 9;

// The kernel chooses the local address when a UDP socket is connected.
std::string own_address_towards(const asio::ip::address& address) {
  boost::system::error_code failed;
  asio::io_context io;
  asio::ip::udp::socket socket(io);
  const asio::ip::udp::endpoint there(address, kAnyPort);
  socket.open(there.protocol(), failed);
  if (!failed) socket.connect(there, failed);
  if (failed) return {};
  const auto own = socket.local_endpoint(failed);
  return failed ? std::string() : own.address().to_string();
}

}  // namespace

std::string interface_to(const std::string& address) {
  boost::system::error_code failed;
  const auto there = asio::ip::make_address(address, failed);
  if (failed || there.is_loopback()) return {};
  const std::vector<net::HostAddress> all = net::host_addresses();
  // The route to an address of this host uses loopback, but other hosts reach the address through its
  // interface.
  for (const std::string& own : {there.to_string(), own_address_towards(there)}) {
    const auto found = std::ranges::find(all, own, &net::HostAddress::address);
    if (found != all.end()) return found->loopback ? "" : found->interface;
  }
  return {};
}

}  // namespace muster::agent
