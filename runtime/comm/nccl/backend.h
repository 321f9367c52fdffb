// The NCCL backend: collectives of CUDA tensors.
//
// LibTorch's CUDA libraries double a program's start and cost 300 MiB, so a program does not link them: they
// are needed by libmuster_nccl.so only, which is loaded before main() when a GPU is visible. It must be then,
// because torch asks once, at its first use, whether CUDA is there.
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

// What libmuster_nccl.so's one function takes and gives.
struct NcclRequest {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;            // place in the group; -1: this process is not in a group that is split off
  std::vector<int> ranks;  // of the job, by place
  c10::Device device;
  std::optional<std::chrono::milliseconds> timeout;  // none: torch's own, 10 minutes
  std::string group_name;
  std::string description;
  NcclOptions options;
  c10::intrusive_ptr<c10d::Backend> split_from;  // null: it connects anew
  c10::intrusive_ptr<c10d::Backend> backend;     // the result; null where this process is not in the group
  // Called, in a thread of torch's, on every rank when a collective of one of them has not ended in time.
  void (*on_timeout)() = nullptr;
};
inline constexpr const char* kNcclFunction = "muster_make_nccl";
using NcclFunction = void(NcclRequest*);
// Its other function: what torch has recorded of the collectives over NCCL, as JSON.
inline constexpr const char* kNcclRecordFunction = "muster_nccl_record";
using NcclRecordFunction = void(std::string*);

// The decision alone: is a GPU visible to a process with this CUDA_VISIBLE_DEVICES (nullptr: not set)?
bool gpu_visible(bool driver_present, const char* cuda_visible_devices);

// The library, or why it is not loaded; neither if no GPU is visible. `name` is nullptr in a build with a
// LibTorch that has no CUDA.
Module load_nccl(bool visible, const char* name);

// Whether libmuster_nccl.so is loaded. Throws std::runtime_error if a GPU is visible and it could not be.
bool nccl_loaded();

// As above; empty if the library is not loaded.
std::string nccl_record();

// Whether an NCCL group whose time is over ends itself, and not the process: nobody has chosen the latter.
// `value` is that of TORCH_NCCL_ASYNC_ERROR_HANDLING, `chosen` of MUSTER_CHOSEN; nullptr: not set.
bool nccl_ends_groups(const char* value, const char* chosen);
// Has it so, before the first group is made.
void let_nccl_end_groups();

// What cannot be: "nccl: max_ctas is 0; it must be 1 or more"; empty: nothing.
std::string refusal_of_nccl(const NcclOptions& options);
// "{high_priority_stream, min_ctas 2}": what is said, in the order of the struct.
std::string text_of(const NcclOptions& options);

// Throws what torch throws. Call only if nccl_loaded().
c10::intrusive_ptr<c10d::Backend> make_nccl(NcclRequest request);

}  // namespace muster
