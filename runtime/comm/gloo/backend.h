// The Gloo backend: collectives of CPU tensors over TCP.
//
// gloo.cc is the one file that includes ProcessGroupGloo.hpp, whose Gloo headers are stand-ins
// (headers/).
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
  // Listen on this address of this machine; empty: on the one that its host name resolves to.
  std::string address;
  // Listen on these interfaces instead (GLOO_SOCKET_IFNAME: names with commas between them); empty: not.
  std::string interfaces;
  // Connect to a peer when it is first needed, which takes the store; else to all of them now.
  bool lazy = false;
};

// Unless lazy, blocks until all ranks are connected. Throws what torch throws.
c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const GlooSettings& settings);

}  // namespace muster
