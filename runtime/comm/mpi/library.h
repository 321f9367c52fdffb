// The MPI backend: all of c10d's collectives and messages, over Open MPI.
//
// Programs do not link MPI. libmuster_mpi.so does, and is loaded when a group with the backend "mpi" is
// created. MPI_COMM_WORLD must be the job. CPU tensors are sent from their own memory, CUDA tensors through
// pinned memory; messages of CUDA tensors are sent directly if Open MPI was built for that.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace muster {

// Arguments and result of libmuster_mpi.so's function.
struct MpiRequest {
  c10::intrusive_ptr<c10d::Store> store;  // the job's
  std::string prefix;                     // prefix of the group's keys in the store, and its name
  std::vector<int> ranks;                 // the members, ascending
  int rank = 0;                           // this process's rank in the job
  int world_size = 1;                     // the job's
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Backend> backend;  // the result
};
inline constexpr const char* kMpiFunction = "muster_make_mpi";
using MpiFunction = void(MpiRequest*);

// All members must call it together. Throws std::runtime_error if MPI is missing, if its world is not the
// job, or if other members do not come in time.
c10::intrusive_ptr<c10d::Backend> make_mpi(MpiRequest request);

}  // namespace muster
