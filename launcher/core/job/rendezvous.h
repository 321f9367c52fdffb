// Chooses where the ranks of an attempt meet. This is the address of the store, on rank 0's node. It also
// says which addresses may connect to the store.
//
// Agents report the addresses of their hosts, and the launcher chooses from these. Then each agent tries
// whether it can reach the store. Pure.
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
// - If all members are on one host, or a member's addresses are unknown, it is the loopback address.
// - Otherwise it is an address in a network that all members share. IPv4 comes before IPv6. Among several,
//   the host's order decides.
// - If no network is shared, it is the host's first address, which routers may know.
// - An address that two hosts have, such as docker0's, is avoided.
// - `members` are in the order of their ranks, so rank 0's is the first.
// - If `interface` is not empty, it names an interface of the first host, or a network such as 10.77.0.0/16.
//   Only addresses on this interface or in this network are allowed.
// - At the addresses `unreachable`, a member did not reach the store. This function prefers other addresses
//   in a shared network.
// Returns kInvalidArgument if the first host has no address on `interface`. Also returns it if the members
// have more addresses than fit into one message.
Expected<Rendezvous> meet(const std::vector<Whereabouts>& members, const std::string& interface,
                          const std::set<std::string>& unreachable = {});

// Returns whether one message has room for the address of the store and for the peers.
bool fit_a_message(const std::string& store_address, const std::vector<std::string>& peers);

// Calls the other meet() with the whereabouts of an attempt's members.
Expected<Rendezvous> meet(const std::vector<NodePlan>& members,
                          const std::map<NodeId, Whereabouts>& whereabouts, const std::string& interface,
                          const std::set<std::string>& unreachable);

}  // namespace muster::launcher
