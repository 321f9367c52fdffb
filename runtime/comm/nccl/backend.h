// The NCCL backend: collectives of CUDA tensors.
//
// LibTorch's CUDA libraries double the time that a program needs to start, and take 300 MiB. So programs are
// not linked with them. Only libmuster_nccl.so needs them. If a GPU is visible, it is loaded before main(),
// because torch checks only once, at its first use, whether there is CUDA.
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

// The arguments and the result of the function in libmuster_nccl.so.
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
// libmuster_nccl.so has one more function. It returns torch's record of the collectives over NCCL, which is a
// JSON text.
inline constexpr const char* kNcclRecordFunction = "muster_nccl_record";
using NcclRecordFunction = void(std::string*);

// Returns whether this process can see a GPU. `cuda_visible_devices` is the value of the variable
// CUDA_VISIBLE_DEVICES, or nullptr if it is not set.
bool gpu_visible(bool driver_present, const char* cuda_visible_devices);

// Loads the library of the NCCL backend. Returns the library, or an error that says why it could not be
// loaded. If `visible` is false, no GPU is visible. Then it returns neither a library nor an error. `name` is
// the library's name. It is null if Muster was built with a LibTorch without CUDA.
Module load_nccl(bool visible, const char* name);

// Returns true if libmuster_nccl.so is loaded. Throws std::runtime_error if a GPU is visible but the library
// could not be loaded.
bool nccl_loaded();

// Returns torch's record of the collectives over NCCL. It is a JSON text. If the library is not loaded,
// returns "".
std::string nccl_record();

// Returns whether a group that times out should end only itself. If not, NCCL ends the whole process. Returns
// false if the user has set TORCH_NCCL_ASYNC_ERROR_HANDLING. `value` is the value of this variable. `chosen`
// is the value of MUSTER_CHOSEN, which lists the variables that the agent, and not the user, has set. Each of
// them is nullptr if the variable is not set.
bool nccl_ends_groups(const char* value, const char* chosen);
// If nccl_ends_groups() returns true, sets the variable TORCH_NCCL_ASYNC_ERROR_HANDLING. Then a group that
// times out ends only itself. Call it before the first group is created.
void let_nccl_end_groups();

// Checks the options. Returns "" if they are valid. Otherwise returns a text such as "nccl: max_ctas is 0; it
// must be 1 or more".
std::string refusal_of_nccl(const NcclOptions& options);
// Returns a text with the options that are set, such as "{high_priority_stream, min_ctas 2}". They are in the
// order of the struct.
std::string text_of(const NcclOptions& options);

// Throws the same exceptions as torch. nccl_loaded() must be true.
c10::intrusive_ptr<c10d::Backend> make_nccl(NcclRequest request);

}  // namespace muster
