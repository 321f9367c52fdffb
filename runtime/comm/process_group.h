// From a World to its store, its device and its process group.
//
// The calls block until the peers they need are there; what they return lives as long as it is held.
#pragma once

#include <c10/core/Device.h>
#include <chrono>
#include <muster/comm/group.h>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "runtime/comm/nccl/messages.h"
#include "runtime/comm/world.h"

namespace muster {

// The store of this attempt; every key gets the attempt's prefix, because a store that outlives an attempt
// would hand the addresses of dead peers to the next one. A server that shall use a socket that listens
// already gets it as listen_fd, and owns it then. Throws std::runtime_error when the store cannot be reached
// within the timeout (at most 5 minutes), or served.
c10::intrusive_ptr<c10d::Store> open_store(const World& world, std::chrono::milliseconds timeout,
                                           std::optional<int> listen_fd);

// "cuda:<local_rank>" if a GPU is visible and the world's backend is not Gloo. Throws std::invalid_argument
// if there are fewer GPUs than local ranks, or none for NCCL.
c10::Device choose_device(const World& world);

// The address of this machine at which the other ranks reach it; empty: the one of its host name.
std::string address_in(const World& world);

// A rank's place in a group.
struct GroupPlace {
  int rank = 0;
  std::vector<int> ranks{};  // the members' in the job, ascending
  std::string prefix;        // of its keys in the store; no other group of the attempt has it
  std::string name;          // in messages
  std::string backend;       // of kBackends, or empty
  NcclOptions nccl{};
  c10::intrusive_ptr<c10d::Backend> split_from{};  // NCCL's of the job, where the group's is made out of it

  int size() const { return static_cast<int>(ranks.size()); }
};

// What a rank needs to make its part of a group.
struct GroupSetup {
  GroupPlace place;
  c10::intrusive_ptr<c10d::Store> store;  // the job's
  c10::Device device;
  std::optional<std::chrono::milliseconds> timeout;  // none: each backend's own
};

// "mpi": MPI for all tensors. "shm": shared memory for CPU tensors alone. "gloo": Gloo for them. "nccl" or no
// name: NCCL for CUDA tensors as well, when the device is one.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const World& world, const GroupSetup& setup);

// NCCL's backend for messages in such a group, in one direction; `collectives` is the group's other one.
c10::intrusive_ptr<c10d::Backend> make_nccl_for_messages(
    GroupSetup setup, Direction direction, const c10::intrusive_ptr<c10d::Backend>& collectives);

// All ranks of the job take part when its members split a group off the job's NCCL: a rank that is no member
// calls this.
void stay_out_of_split(const GroupSetup& setup);

}  // namespace muster
