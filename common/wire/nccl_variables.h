// The variables for NCCL and for torch's groups over it that workers get unless the user sets them.
//
// An agent sets them, and a plan shows them. NCCL_SOCKET_IFNAME, the interface that NCCL uses, is separate,
// since each node has its own. Plain values.
#pragma once

#include <string_view>

namespace muster::wire {

struct NcclVariable {
  const char* name;
  const char* value;
  bool only_with_gpus;
  // its name in a newer torch, which also reads the old one, with a warning
  const char* newer_name = nullptr;
};

// Whether a worker gets `variable`, unless the variable is already set. `is_set` says whether the user has
// set the variable with that name.
template <class IsSet>
bool is_wanted(const NcclVariable& variable, bool use_gpus, IsSet is_set) {
  return (use_gpus || !variable.only_with_gpus) &&
         (variable.newer_name == nullptr || !is_set(variable.newer_name));
}

inline constexpr const char* kNcclInterface = "NCCL_SOCKET_IFNAME";
// Determines what a group over NCCL does when its time-out has passed. If the agent chose the value
// (kChosenVariables), a program with Muster's runtime ends the group but not its process.
inline constexpr const char* kNcclErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";

inline constexpr NcclVariable kNcclVariables[] = {
    {kNcclErrorHandling, "1", false},  // as torchrun sets it
    // When a group's time-out has passed, torch waits four times this long for ranks to write their flight
    // records before it ends the group. torch's default: 60 s.
    {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000", true, "TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC"},
};

// Environment variable with the path of torch's flight record; torch appends the rank. If the user has not
// set it, the agent names a file in the rank's log directory there (kFlightRecordName). kOldFlightRecord is
// the variable's older name.
inline constexpr const char* kFlightRecord = "TORCH_FR_DUMP_TEMP_FILE";
inline constexpr const char* kOldFlightRecord = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE";
inline constexpr const char* kFlightRecordName = "flight_recorder.";

// Tells a worker with GPUs which of these variables the agent chose, because the user had not set them;
// separated by commas.
inline constexpr const char* kChosenVariables = "MUSTER_CHOSEN";

}  // namespace muster::wire
