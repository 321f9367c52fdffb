// The backend of ranks on one host: collectives and messages of CPU tensors through memory that they share.
//
// Sums are made in the order of the ranks, so that their bits depend on the number of ranks and on nothing
// else; of two ranks they are Gloo's. The memory of a group is bounded (shm/segment.h), has no name, and goes
// with its last rank. A rank that has ended, has left or gives up ends the group, as an error on all that
// wait for it; so does a wait that takes longer than the time-out, with the names of the ranks that have not
// come. Tensors must be contiguous. Calls are safe from any thread; a Work's wait does what is left to do
// itself.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace muster {

struct ShmSettings {
  int rank = 0;            // place in the group
  std::vector<int> ranks;  // of the job, by place: for messages
  std::chrono::milliseconds timeout{};
};

// Returns when all have come. std::invalid_argument, on all of them, if they are not on one host;
// std::runtime_error if one ends, or does not come in time.
c10::intrusive_ptr<c10d::Backend> make_shm(const c10::intrusive_ptr<c10d::Store>& store,
                                           const ShmSettings& settings);

}  // namespace muster
