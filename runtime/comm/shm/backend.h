// The backend for ranks on one host: collectives and messages of CPU tensors through shared memory.
//
// Sums are computed in the order of the ranks. So the bits of a sum depend only on the number of ranks. With
// two ranks, they are the same as those of Gloo.
//
// The memory of a group has a limited size (shm/segment.h) and no name. It disappears with the last rank of
// the group. If a rank ends, leaves or gives up, the group ends, and all ranks that wait for this rank get an
// error. The group also ends if a rank waits longer than the timeout. The error then names the ranks that are
// missing.
//
// Tensors must be contiguous. Any thread can call the functions. If a thread waits for a Work, it does the
// remaining work itself.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace muster {

struct ShmSettings {
  int rank = 0;            // place in the group
  std::vector<int> ranks;  // the members' ranks in the job, by place; for error texts
  std::chrono::milliseconds timeout{};
};

// Returns when all ranks have joined. If the ranks are not on one host, throws std::invalid_argument on all
// ranks. If a rank ends, or does not join within the timeout, throws std::runtime_error.
c10::intrusive_ptr<c10d::Backend> make_shm(const c10::intrusive_ptr<c10d::Store>& store,
                                           const ShmSettings& settings);

}  // namespace muster
