// The MPI backend: all of c10d's collectives and messages, over Open MPI.
//
// Programs do not link MPI: libmuster_mpi.so does, which is loaded when a group of the backend "mpi" is made.
// MPI_COMM_WORLD must be the job. CPU tensors are sent from where they lie, those of GPUs through pinned
// memory; messages directly where Open MPI was built for it.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace muster {

// What libmuster_mpi.so's one function takes and gives.
struct MpiRequest {
  c10::intrusive_ptr<c10d::Store> store;  // of the job
  std::string prefix;                     // of the group's keys there, and its name
  std::vector<int> ranks;                 // its members, ascending
  int rank = 0;                           // of this process, in the job
  int world_size = 1;                     // of the job
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Backend> backend;  // the result
};
inline constexpr const char* kMpiFunction = "muster_make_mpi";
using MpiFunction = void(MpiRequest*);

// Collective over the members. Throws std::runtime_error: there is no MPI, its world is not the job, or the
// others have not come in time.
c10::intrusive_ptr<c10d::Backend> make_mpi(MpiRequest request);

}  // namespace muster
