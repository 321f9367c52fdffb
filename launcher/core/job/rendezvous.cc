#include "launcher/core/job/rendezvous.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <set>
#include <tuple>

#include "common/base/text.h"
#include "common/wire/frame.h"

namespace muster::launcher {

namespace {

struct Network {
  bool six = false;
  std::array<std::uint8_t, 16> bytes{};  // in network byte order
  int bits = 0;

  bool contains(const Network& other) const {
    if (six != other.six || other.bits < 0) return false;
    for (int i = 0; i < bits; ++i) {
      const auto byte = static_cast<std::size_t>(i / 8);
      const int mask = 0x80 >> (i % 8);
      if ((bytes[byte] & mask) != (other.bytes[byte] & mask)) return false;
    }
    return true;
  }
};

// "10.77.0.10/24"
std::optional<Network> parse_network(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string address(text.substr(0, slash));
  Network network;
  network.six = address.find(':') != std::string::npos;
  const auto bits = parse_number<int>(text.substr(slash + 1));
  if (!bits || *bits < 0 || *bits > (network.six ? 128 : 32)) return std::nullopt;
  if (inet_pton(network.six ? AF_INET6 : AF_INET, address.c_str(), network.bytes.data()) != 1)
    return std::nullopt;
  network.bits = *bits;
  return network;
}

struct Address {
  std::string interface;
  std::string text;
  Network network;
};

// Addresses come from the network, so some may be malformed. These are skipped.
std::vector<Address> addresses_of(const Whereabouts& member) {
  std::vector<Address> all;
  for (const std::string& each : member.addresses) {
    const auto words = split(each, ' ');
    const auto network = words.size() == 2 ? parse_network(words[1]) : std::nullopt;
    if (!network) continue;
    all.push_back({std::string(words[0]), std::string(words[1].substr(0, words[1].find('/'))), *network});
  }
  return all;
}

bool wanted(const Address& address, const std::string& interface) {
  if (interface.empty() || address.interface == interface) return true;
  const auto network = parse_network(interface);
  return network && network->contains(address.network);
}

}  // namespace

Expected<Rendezvous> meet(const std::vector<Whereabouts>& members, const std::string& interface,
                          const std::set<std::string>& unreachable) {
  Rendezvous rendezvous;
  if (members.empty()) return rendezvous;
  const Whereabouts& first = members.front();
  const bool one_host = std::ranges::all_of(members, [&first](const Whereabouts& each) {
    return each.host == first.host && each.addresses == first.addresses;
  });
  const bool untold =
      std::ranges::any_of(members, [](const Whereabouts& each) { return each.addresses.empty(); });
  if (one_host || untold) return rendezvous;

  std::vector<Address> candidates = addresses_of(first);
  std::erase_if(candidates, [&interface](const Address& each) { return !wanted(each, interface); });
  if (candidates.empty())
    return failure(ErrorCode::kInvalidArgument, "{}{}: rank 0's host, {}, has no address there; it has {}",
                   interface.empty() ? "" : "--interface ", interface, first.host,
                   fmt::join(first.addresses, ", "));
  std::set<std::string> peers;
  for (const Address& each : addresses_of(first)) peers.insert(each.text);
  std::vector<std::vector<Address>> others;
  std::set<std::string> of_others;
  for (const Whereabouts& member : members) {
    if (member.host == first.host && member.addresses == first.addresses) continue;
    others.push_back(addresses_of(member));
    for (const Address& each : others.back()) of_others.insert(each.text);
  }
  peers.insert(of_others.begin(), of_others.end());
  const auto is_common = [&others](const Address& candidate) {
    return std::ranges::all_of(others, [&candidate](const std::vector<Address>& member) {
      return std::ranges::any_of(
          member, [&](const Address& each) { return candidate.network.contains(each.network); });
    });
  };
  const auto is_another = [&](const Address& each) {
    return !unreachable.contains(each.text) && !of_others.contains(each.text) && is_common(each);
  };
  const auto best = std::ranges::min_element(candidates, {}, [&](const Address& each) {
    const bool tried = !unreachable.empty() && !is_another(each);
    return std::tuple(tried, of_others.contains(each.text), !is_common(each), each.network.six);
  });
  rendezvous.store_address = best->text;
  rendezvous.peers.assign(peers.begin(), peers.end());
  if (!fit_a_message(rendezvous.store_address, rendezvous.peers))
    return failure(ErrorCode::kInvalidArgument,
                   "the nodes' hosts have {} addresses, more than fit into one message",
                   rendezvous.peers.size());
  return rendezvous;
}

bool fit_a_message(const std::string& store_address, const std::vector<std::string>& peers) {
  constexpr std::size_t kMostBytes = wire::kMaxBodyBytes / 2;
  constexpr std::size_t kHeadBytes = 5;  // of a text, at most
  std::size_t bytes = store_address.size();
  for (const std::string& each : peers) bytes += each.size() + kHeadBytes;
  return bytes <= kMostBytes;
}

Expected<Rendezvous> meet(const std::vector<NodePlan>& members,
                          const std::map<NodeId, Whereabouts>& whereabouts, const std::string& interface,
                          const std::set<std::string>& unreachable) {
  std::vector<Whereabouts> places;
  for (const NodePlan& each : members) places.push_back(whereabouts.at(each.node));
  return meet(places, interface, unreachable);
}

}  // namespace muster::launcher
