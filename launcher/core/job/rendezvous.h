// Where the ranks of an attempt meet: the address of the store, on rank 0's node, and who may call it.
//
// From what agents said of their hosts' addresses; whether the address can be reached, each agent finds out.
// Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

// Where an agent is, by its Hello.
struct Whereabouts {
  std::string host;                    // its name for itself
  std::vector<std::string> addresses;  // "eth0 10.77.0.10/24"
  std::string machine{};               // empty: not known
  template <class Archive>
  void fields(Archive& archive) {
    archive(host, addresses, machine);
  }
};

struct Rendezvous {
  std::string store_address = "127.0.0.1";
  std::vector<std::string> peers;  // all addresses of the members; empty on loopback
};

// `members`: by rank, rank 0's first. All on one host, or addresses that nobody told: loopback. Else an
// address of the first in a network in which each other member has one too, IPv4 before IPv6, as its host
// lists them; where there is none, the first one that routers may know. One that two hosts have (docker0) is
// not used while there is another. `interface`, if not empty, is the name of one of the first's interfaces or
// a network (10.77.0.0/16): no other address is used; kInvalidArgument if the first has none there, or the
// members have more addresses than fit into one message.
// `unreachable`: addresses at which some member did not reach the store; another one in a common network is
// taken, if there is any.
Expected<Rendezvous> meet(const std::vector<Whereabouts>& members, const std::string& interface,
                          const std::set<std::string>& unreachable = {});

// Whether what an attempt is told of its store fits into one message.
bool fit_a_message(const std::string& store_address, const std::vector<std::string>& peers);

// The same as meet() of an attempt's members.
Expected<Rendezvous> meet(const std::vector<NodePlan>& members,
                          const std::map<NodeId, Whereabouts>& whereabouts, const std::string& interface,
                          const std::set<std::string>& unreachable);

}  // namespace muster::launcher
