// The variables of NCCL, and of torch's groups over it, that workers get where nobody has set them.
//
// An agent sets them, and a plan shows them. Which interface NCCL uses, NCCL_SOCKET_IFNAME, is beside them:
// it is each node's own. Plain values.
#pragma once

#include <string_view>

namespace muster::wire {

struct NcclVariable {
  const char* name;
  const char* value;
  bool only_with_gpus;
  const char* newer_name = nullptr;  // in a newer torch; the other one is read there too, with a warning
};

// Whether a worker gets `variable`, unless it has it already. `is_set` says of a name whether somebody has
// set it.
template <class IsSet>
bool is_wanted(const NcclVariable& variable, bool use_gpus, IsSet is_set) {
  return (use_gpus || !variable.only_with_gpus) &&
         (variable.newer_name == nullptr || !is_set(variable.newer_name));
}

inline constexpr const char* kNcclInterface = "NCCL_SOCKET_IFNAME";
// What an NCCL group does whose time is over. A program of our runtime ends the group and not its process
// where this has been chosen for it (kChosenVariables).
inline constexpr const char* kNcclErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";

inline constexpr NcclVariable kNcclVariables[] = {
    {kNcclErrorHandling, "1", false},  // as torchrun has it
    // Before torch ends a group whose time is over it waits four times as long for ranks to write down what
    // they were in: 60 s by itself.
    {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1000", true, "TORCH_FR_WAIT_TIMEOUT_DUMP_MILSEC"},
};

// Where torch writes, followed by the rank, what a rank with GPUs was in when a collective has not ended in
// time: beside the rank's logs.
inline constexpr const char* kFlightRecord = "TORCH_FR_DUMP_TEMP_FILE";
inline constexpr const char* kOldFlightRecord = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE";
inline constexpr const char* kFlightRecordName = "flight_recorder.";

// Tells a worker with GPUs which of them nobody had set, separated by commas.
inline constexpr const char* kChosenVariables = "MUSTER_CHOSEN";

}  // namespace muster::wire
