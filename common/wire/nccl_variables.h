// The variables for NCCL, and for torch's NCCL groups, that workers get unless the user sets them.
//
// An agent sets them, and a plan shows them. NCCL_SOCKET_IFNAME, the network interface for NCCL, is separate,
// because its value differs between nodes. Plain values.
#pragma once

#include <string_view>

namespace muster::wire {

struct NcclVariable {
  const char* name;
  const char* value;
  bool only_with_gpus;
  // Newer versions of torch have another name for this variable, and `newer_name` is that name. They still
  // read the variable `name`, but warn. Null if the variable has only one name.
  const char* newer_name = nullptr;
};

// Returns whether a worker gets `variable`. The caller has checked that `variable` itself is not set.
// `is_set(name)` tells whether another variable is set.
template <class IsSet>
bool is_wanted(const NcclVariable& variable, bool use_gpus, IsSet is_set) {
  return (use_gpus || !variable.only_with_gpus) &&
         (variable.newer_name == nullptr || !is_set(variable.newer_name));
}

inline constexpr const char* kNcclInterface = "NCCL_SOCKET_IFNAME";
// This variable says how an NCCL group reacts when its time-out has passed. If the agent has chosen its value
// (kChosenVariables), Muster's runtime ends only the group, and not the process.
inline constexpr const char* kNcclErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";

inline constexpr NcclVariable kNcclVariables[] = {
    {kNcclErrorHandling, "1", false},  // as torchrun sets it
    // In milliseconds. When the time-out of a group has passed, torch waits for the ranks' flight records
    // before it ends the group. torch waits for four times the value: here 4 s. By default the value is 60 s.
    {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000", true, "TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC"},
};

// The environment variable that says where torch writes its flight record. torch appends the rank to this
// path. If the user has not set the variable, the agent sets it to a file in the rank's log directory
// (kFlightRecordName). kOldFlightRecord is an older name of the variable.
inline constexpr const char* kFlightRecord = "TORCH_FR_DUMP_TEMP_FILE";
inline constexpr const char* kOldFlightRecord = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE";
inline constexpr const char* kFlightRecordName = "flight_recorder.";

// Workers with GPUs have this environment variable. It contains the names of those variables above that the
// agent has set, separated by commas.
inline constexpr const char* kChosenVariables = "MUSTER_CHOSEN";

}  // namespace muster::wire
