// From a World to its store, its device and its process group.
//
// The calls block until the peers they need are there; what they return lives as long as it is held.
#pragma once

#include <c10/core/Device.h>
#include <chrono>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "runtime/comm/world.h"

namespace muster {

// The store of this attempt; every key gets the attempt's prefix, because a store that outlives an attempt
// would hand the addresses of dead peers to the next one. A server that shall use a socket that listens
// already gets it as listen_fd, and owns it then. Throws std::runtime_error when the store cannot be reached
// within the timeout (at most 5 minutes), or served.
c10::intrusive_ptr<c10d::Store> open_store(const World& world, std::chrono::milliseconds timeout,
                                           std::optional<int> listen_fd);

// "cuda:<local_rank>" if a GPU is visible. Throws std::invalid_argument if there are fewer GPUs than local
// ranks.
c10::Device choose_device(const World& world);

// The address of this machine at which the other ranks reach it; empty: the one of its host name.
std::string address_in(const World& world);

// A rank's place in a group.
struct GroupPlace {
  int rank = 0;
  int size = 1;
  std::string prefix;  // of its keys in the store; no other group of the attempt has it
};

// Gloo for CPU tensors, and NCCL for CUDA tensors when the device is one.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const World& world, const GroupPlace& place,
                                                          const c10::intrusive_ptr<c10d::Store>& store,
                                                          c10::Device device,
                                                          std::optional<std::chrono::milliseconds> timeout);

}  // namespace muster
