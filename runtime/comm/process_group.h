// Creates the store, the device and the process group of a world.
//
// A function that needs other ranks waits until these ranks are present. The objects that the functions
// return live as long as the caller keeps them.
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

// Opens the store of this attempt. Each key in the store gets a prefix that only this attempt has. Otherwise,
// if the store outlives an attempt, the next attempt would find the addresses of processes that have ended.
// `listen_fd` is a socket that already listens. The server of the store uses it and becomes its owner. Throws
// std::runtime_error if the store cannot be served, or if it cannot be reached within `timeout`. The timeout
// is at most 5 minutes.
c10::intrusive_ptr<c10d::Store> open_store(const World& world, std::chrono::milliseconds timeout,
                                           std::optional<int> listen_fd);

// Returns the device of this rank. It is the CPU if the world's backend is Gloo or shm, or if no GPU is
// visible. Otherwise it is "cuda:<local_rank>". Throws std::invalid_argument if that GPU does not exist, or
// if the backend is "nccl" and nccl_loaded() is false.
c10::Device choose_device(const World& world);

// Returns the address at which other ranks reach this machine. "" stands for the address of the machine's
// host name.
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

// Has everything that a rank needs to create its part of a group.
struct GroupSetup {
  GroupPlace place;
  c10::intrusive_ptr<c10d::Store> store;  // the job's
  c10::Device device;
  std::optional<std::chrono::milliseconds> timeout;  // empty: each backend's default
};

// Creates a group. `setup.place.backend` says which backends it has:
// - "mpi": MPI for all tensors;
// - "shm": shared memory, only for CPU tensors;
// - "gloo": Gloo, only for CPU tensors;
// - "nccl" or empty: Gloo for CPU tensors. If the device is a GPU, also NCCL for CUDA tensors.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const World& world, const GroupSetup& setup);

// Creates a group's NCCL backend for messages in one direction. `collectives` is the group's NCCL backend for
// collectives.
c10::intrusive_ptr<c10d::Backend> make_nccl_for_messages(
    GroupSetup setup, Direction direction, const c10::intrusive_ptr<c10d::Backend>& collectives);

// When a group is split off the job's NCCL backend, all ranks of the job must take part. The ranks that are
// not members of the group call this function to do so.
void stay_out_of_split(const GroupSetup& setup);

}  // namespace muster
