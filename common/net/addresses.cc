#include "common/net/addresses.h"

#include <arpa/inet.h>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <optional>

namespace muster::net {

namespace {

int bits_of(const void* mask, std::size_t size) {
  int bits = 0;
  for (std::size_t i = 0; i < size; ++i) bits += std::popcount(static_cast<const std::uint8_t*>(mask)[i]);
  return bits;
}

std::optional<HostAddress> usable(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || entry.ifa_netmask == nullptr || (entry.ifa_flags & IFF_UP) == 0)
    return std::nullopt;
  HostAddress found{
      .interface = entry.ifa_name, .address = {}, .loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (entry.ifa_addr->sa_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in*>(entry.ifa_addr)->sin_addr;
    const auto& mask = reinterpret_cast<const sockaddr_in*>(entry.ifa_netmask)->sin_addr;
    if ((ntohl(address.s_addr) >> 16) == 0xa9fe) return std::nullopt;  // 169.254.0.0/16
    inet_ntop(AF_INET, &address, text.data(), text.size());
    found.prefix_bits = bits_of(&mask, sizeof mask);
  } else if (entry.ifa_addr->sa_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr;
    const auto& mask = reinterpret_cast<const sockaddr_in6*>(entry.ifa_netmask)->sin6_addr;
    if (IN6_IS_ADDR_LINKLOCAL(&address)) return std::nullopt;
    inet_ntop(AF_INET6, &address, text.data(), text.size());
    found.prefix_bits = bits_of(&mask, sizeof mask);
  } else {
    return std::nullopt;
  }
  found.address = text.data();
  return found;
}

}  // namespace

std::vector<HostAddress> host_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<HostAddress> all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (auto found = usable(*entry)) all.push_back(*std::move(found));
  }
  return all;
}

std::vector<std::string> addresses_to_tell() {
  std::vector<std::string> told;
  for (const HostAddress& each : host_addresses()) {
    if (!each.loopback)
      told.push_back(fmt::format("{} {}/{}", each.interface, each.address, each.prefix_bits));
  }
  return told;
}

}  // namespace muster::net
