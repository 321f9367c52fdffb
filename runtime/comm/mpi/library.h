// The MPI backend: all collectives and messages of c10d over Open MPI.
//
// Programs are not linked with MPI. Only the library libmuster_mpi.so is linked with MPI. It is loaded when a
// group with the backend "mpi" is created. The ranks of MPI_COMM_WORLD must be the ranks of the job. CPU
// tensors are sent from their own memory. CUDA tensors are sent through pinned memory. There is one
// exception: if Open MPI was built for GPUs, messages of CUDA tensors are sent directly.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace muster {

// The arguments and the result of the function in libmuster_mpi.so.
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

// All members must call make_mpi() together. Throws std::runtime_error if MPI is missing, if the ranks of
// MPI's world are not the ranks of the job, or if other members do not come in time.
c10::intrusive_ptr<c10d::Backend> make_mpi(MpiRequest request);

}  // namespace muster
