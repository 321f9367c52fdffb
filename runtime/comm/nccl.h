// The NCCL backend: collectives of CUDA tensors.
//
// LibTorch's CUDA libraries double a program's start and cost 300 MiB, so a program does not link them: they
// are needed by libmuster_nccl.so only, which is loaded before main() when a GPU is visible. It must be then,
// because torch asks once, at its first use, whether CUDA is there.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace muster {

// What libmuster_nccl.so's one function takes and gives.
struct NcclRequest {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int world_size = 1;
  std::optional<std::chrono::milliseconds> timeout;  // none: NCCL's own, 10 minutes
  std::string group_name;
  c10::intrusive_ptr<c10d::Backend> backend;  // the result
};
inline constexpr const char* kNcclFunction = "muster_make_nccl";
using NcclFunction = void(NcclRequest*);

// The decision alone: is a GPU visible to a process with this CUDA_VISIBLE_DEVICES (nullptr: not set)?
bool gpu_visible(bool driver_present, const char* cuda_visible_devices);

// The library, or why it is not loaded; neither if no GPU is visible. `name` is nullptr in a build with a
// LibTorch that has no CUDA.
struct NcclLibrary {
  void* handle = nullptr;
  std::string error;
};
NcclLibrary load_nccl(bool visible, const char* name);

// Whether libmuster_nccl.so is loaded. Throws std::runtime_error if a GPU is visible and it could not be.
bool nccl_loaded();

// Throws what torch throws. Call only if nccl_loaded().
c10::intrusive_ptr<c10d::Backend> make_nccl(NcclRequest request);

}  // namespace muster
