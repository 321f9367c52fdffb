// The Gloo backend: collectives of CPU tensors over TCP.
//
// Only backend.cc includes ProcessGroupGloo.hpp. That file includes headers of Gloo, which LibTorch does not
// have. The folder headers/ has replacements for them.
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
  // The address of this machine on which Gloo listens. If it is empty, Gloo takes the address of the
  // machine's host name.
  std::string address;
  // If not empty, Gloo listens on these interfaces instead. This is the value of the variable
  // GLOO_SOCKET_IFNAME. It has commas between the names.
  std::string interfaces;
  // If true, this rank connects to a peer, through the store, before its first message to or from that peer.
  // If false, make_gloo() connects this rank to all peers.
  bool lazy = false;
};

// Creates the Gloo backend. If `lazy` is true, returns at once. Otherwise returns when this rank is connected
// to all ranks. Throws the same exceptions as torch.
c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const GlooSettings& settings);

}  // namespace muster
