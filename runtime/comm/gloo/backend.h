// The Gloo backend: collectives of CPU tensors over TCP.
//
// backend.cc is the only file that includes ProcessGroupGloo.hpp. The Gloo headers that it needs are
// stand-ins (headers/).
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace muster {

struct GlooSettings {
  int rank = 0;
  int world_size = 1;
  std::chrono::milliseconds timeout{};
  std::string group_name;
  // Listen on this address of this machine; empty: the address of its host name.
  std::string address;
  // Listen on these interfaces instead (GLOO_SOCKET_IFNAME, separated by commas); empty: not set.
  std::string interfaces;
  // true: connect to a peer at first use, through the store; false: connect to all peers now.
  bool lazy = false;
};

// If lazy, returns at once; if not, returns when all ranks are connected. Throws what torch throws.
c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const GlooSettings& settings);

}  // namespace muster
