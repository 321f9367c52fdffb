// The NCCL backend: collectives of CUDA tensors.
//
// LibTorch's CUDA libraries double a program's start and cost 300 MiB, so programs do not link them. Only
// libmuster_nccl.so needs them. It is loaded before main() if a GPU is visible, because torch checks only
// once, at first use, whether CUDA exists.
#pragma once

#include <c10/core/Device.h>
#include <chrono>
#include <muster/comm/group.h>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "runtime/rank/loaded_torch.h"

namespace muster {

// Arguments and result of libmuster_nccl.so's function.
struct NcclRequest {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;  // place in the group; -1: this process is not in the group, but helps to split it off
  std::vector<int> ranks;  // the members' ranks in the job, by place
  c10::Device device;
  std::optional<std::chrono::milliseconds> timeout;  // empty: torch's default, 10 minutes
  std::string group_name;
  std::string description;
  NcclOptions options;
  c10::intrusive_ptr<c10d::Backend> split_from;  // null: make new connections
  c10::intrusive_ptr<c10d::Backend> backend;     // the result; null if this process is not in the group
  // When a collective of any rank times out, one of torch's threads calls this on every rank.
  void (*on_timeout)() = nullptr;
};
inline constexpr const char* kNcclFunction = "muster_make_nccl";
using NcclFunction = void(NcclRequest*);
// libmuster_nccl.so's other function returns torch's record of the collectives over NCCL, as JSON.
inline constexpr const char* kNcclRecordFunction = "muster_nccl_record";
using NcclRecordFunction = void(std::string*);

// True if a process with this CUDA_VISIBLE_DEVICES (nullptr: not set) can see a GPU.
bool gpu_visible(bool driver_present, const char* cuda_visible_devices);

// Returns the library, or why it could not be loaded. Returns neither if no GPU is visible. `name` is nullptr
// in a build with a LibTorch without CUDA.
Module load_nccl(bool visible, const char* name);

// True if libmuster_nccl.so is loaded. Throws std::runtime_error if a GPU is visible but the library could
// not be loaded.
bool nccl_loaded();

// Returns torch's record of the collectives over NCCL, as JSON; "" if the library is not loaded.
std::string nccl_record();

// True if an NCCL group that times out should end only itself, and not the process. False if the user has set
// TORCH_NCCL_ASYNC_ERROR_HANDLING. `value` is the value of that variable. `chosen` is MUSTER_CHOSEN, which
// lists the variables that the agent has set instead of the user. nullptr: not set.
bool nccl_ends_groups(const char* value, const char* chosen);
// If nccl_ends_groups(), sets TORCH_NCCL_ASYNC_ERROR_HANDLING so that a group that times out ends only
// itself. Call it before the first group is created.
void let_nccl_end_groups();

// Returns why the options are invalid: "nccl: max_ctas is 0; it must be 1 or more"; "" if they are valid.
std::string refusal_of_nccl(const NcclOptions& options);
// Returns the options that are set, in the order of the struct: "{high_priority_stream, min_ctas 2}".
std::string text_of(const NcclOptions& options);

// Throws what torch throws. Requires nccl_loaded().
c10::intrusive_ptr<c10d::Backend> make_nccl(NcclRequest request);

}  // namespace muster
