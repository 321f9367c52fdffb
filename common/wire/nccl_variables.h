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
  // its name in a newer torch, which still reads `name`, but warns
  const char* newer_name = nullptr;
};

// Returns whether a worker gets `variable`, provided that it is not set. `is_set(name)`: whether the variable
// with this name is set.
template <class IsSet>
bool is_wanted(const NcclVariable& variable, bool use_gpus, IsSet is_set) {
  return (use_gpus || !variable.only_with_gpus) &&
         (variable.newer_name == nullptr || !is_set(variable.newer_name));
}

inline constexpr const char* kNcclInterface = "NCCL_SOCKET_IFNAME";
// Determines what an NCCL group does when its time-out has passed. If the agent chose the value
// (kChosenVariables), Muster's runtime ends only the group, not the process.
inline constexpr const char* kNcclErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";

inline constexpr NcclVariable kNcclVariables[] = {
    {kNcclErrorHandling, "1", false},  // as torchrun sets it
    // In milliseconds. When a group's time-out has passed, torch waits four times this long for the ranks'
    // flight records before it ends the group. torch's default is 60 s.
    {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000", true, "TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC"},
};

// The environment variable with the path of torch's flight record; torch appends the rank. If the user has
// not set it, the agent sets it to a file in the rank's log directory (kFlightRecordName). kOldFlightRecord
// is the variable's older name.
inline constexpr const char* kFlightRecord = "TORCH_FR_DUMP_TEMP_FILE";
inline constexpr const char* kOldFlightRecord = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE";
inline constexpr const char* kFlightRecordName = "flight_recorder.";

// The environment variable that tells a worker with GPUs which of these variables the agent has chosen;
// separated by commas.
inline constexpr const char* kChosenVariables = "MUSTER_CHOSEN";

}  // namespace muster::wire
