// Creates a world's store, device and process group.
//
// The calls block until the required peers are present; the results live as long as they are held.
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

// Opens the store of this attempt. Every key gets the attempt's prefix: a store that outlives an attempt
// would otherwise give the next attempt the addresses of dead peers. `listen_fd` is a listening socket for
// the server, which takes ownership of it. Throws std::runtime_error if the store cannot be served, or cannot
// be reached within the timeout (at most 5 minutes).
c10::intrusive_ptr<c10d::Store> open_store(const World& world, std::chrono::milliseconds timeout,
                                           std::optional<int> listen_fd);

// Returns the CPU if the world's backend is Gloo or shm, or if no GPU is visible. Otherwise returns
// "cuda:<local_rank>", and throws std::invalid_argument if that GPU does not exist. Also throws
// std::invalid_argument if the backend is "nccl" and nccl_loaded() is false.
c10::Device choose_device(const World& world);

// Returns the address at which other ranks reach this machine; "" stands for the address of its host name.
std::string address_in(const World& world);

// A rank's place in a group.
struct GroupPlace {
  int rank = 0;
  std::vector<int> ranks{};  // the members' ranks in the job, ascending
  std::string prefix;        // the prefix of the group's keys in the store; unique within the attempt
  std::string name;          // for error texts and logs
  std::string backend;       // one of kBackends, or empty
  NcclOptions nccl{};
  c10::intrusive_ptr<c10d::Backend> split_from{};  // the job's NCCL backend, if the group is split off it

  int size() const { return static_cast<int>(ranks.size()); }
};

// A rank's input for the creation of its part of a group.
struct GroupSetup {
  GroupPlace place;
  c10::intrusive_ptr<c10d::Store> store;  // the job's
  c10::Device device;
  std::optional<std::chrono::milliseconds> timeout;  // empty: each backend's default
};

// Creates a group with the backends that `setup.place.backend` names. "mpi": MPI for all tensors. "shm":
// shared memory, only for CPU tensors. "gloo": Gloo, only for CPU tensors. "nccl" or empty: Gloo for CPU
// tensors, and NCCL for CUDA tensors if the device is a GPU.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const World& world, const GroupSetup& setup);

// Creates a group's NCCL backend for messages in one direction. `collectives` is its backend for collectives.
c10::intrusive_ptr<c10d::Backend> make_nccl_for_messages(
    GroupSetup setup, Direction direction, const c10::intrusive_ptr<c10d::Backend>& collectives);

// All ranks of the job must take part when a group is split off the job's NCCL backend. Call this function on
// the ranks that are not members of the group.
void stay_out_of_split(const GroupSetup& setup);

}  // namespace muster
