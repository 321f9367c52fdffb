// The backend for ranks on one host: collectives and messages of CPU tensors through shared memory.
//
// Sums are computed in the order of the ranks, so their bits depend only on the number of ranks; with two
// ranks they equal Gloo's. A group's memory is bounded (shm/segment.h), has no name, and disappears with the
// group's last rank. If a rank ends, leaves or gives up, the group ends, and all ranks that wait for that
// rank get an error. The group also ends if a wait exceeds the timeout; the error then names the missing
// ranks. Tensors must be contiguous. Calls are safe from any thread. The thread that waits for a Work does
// the remaining work itself.
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

// Returns when all ranks have joined. Throws std::invalid_argument on all ranks if they are not on one host,
// and std::runtime_error if a rank ends or does not join within the timeout.
c10::intrusive_ptr<c10d::Backend> make_shm(const c10::intrusive_ptr<c10d::Store>& store,
                                           const ShmSettings& settings);

}  // namespace muster
