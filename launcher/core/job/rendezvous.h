// Where the ranks of an attempt meet: the address of the store, on rank 0's node, and the addresses that may
// connect to it.
//
// The launcher chooses from the addresses that agents reported for their hosts; each agent tries whether it
// can reach the store. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

// Where an agent is, according to its Hello.
struct Whereabouts {
  std::string host;                    // the host's own name
  std::vector<std::string> addresses;  // "eth0 10.77.0.10/24"
  std::string machine{};               // empty: unknown
  template <class Archive>
  void fields(Archive& archive) {
    archive(host, addresses, machine);
  }
};

struct Rendezvous {
  std::string store_address = "127.0.0.1";
  std::vector<std::string> peers;  // all addresses of the members; empty on loopback
};

// Chooses the address of the store on the first member's host.
// - If all members are on one host, or a member's addresses are unknown: loopback.
// - Otherwise an address in a network that all members share, IPv4 before IPv6, in the host's order.
// - Without a shared network: the first address, which routers may know.
// - Avoids addresses that two hosts have, such as docker0's.
// - `members`: by rank, rank 0's first.
// - `interface`: if not empty, only addresses on this interface of the first host, or in this network
//   (10.77.0.0/16).
// - `unreachable`: addresses where a member did not reach the store. Prefers other addresses in a shared
//   network.
// Errors: kInvalidArgument if the first host has no address on `interface`, or if the members have more
// addresses than fit into one message.
Expected<Rendezvous> meet(const std::vector<Whereabouts>& members, const std::string& interface,
                          const std::set<std::string>& unreachable = {});

// Whether the store's address and peers fit into one message.
bool fit_a_message(const std::string& store_address, const std::vector<std::string>& peers);

// Calls the other meet() with the whereabouts of an attempt's members.
Expected<Rendezvous> meet(const std::vector<NodePlan>& members,
                          const std::map<NodeId, Whereabouts>& whereabouts, const std::string& interface,
                          const std::set<std::string>& unreachable);

}  // namespace muster::launcher
