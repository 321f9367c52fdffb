// Computes a worker's environment and command line. The environment has everything that torchrun promises,
// and Muster's own variables.
//
// Pure: the agent's own environment and machine are passed in. Source: the documentation of torchrun and of
// torch.distributed's env:// initialization.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/messages.h"

namespace muster::agent {

using Environment = std::map<std::string, std::string, std::less<>>;

// The MPI server that the ranks of an MPI job use.
struct MpiContext {
  wire::Mpi kind = wire::Mpi::kNone;  // never kAuto
  std::string segments{};             // directory for the memory that ranks share; empty: no separate one
};

// The values that all ranks of the node share in one attempt.
struct NodeContext {
  Environment inherited;  // the agent's own
  std::int32_t core_count = 1;
  NodeId node;
  Attempt attempt;
  std::string socket_path;      // MUSTER_SOCKET
  std::string python_module{};  // file to append to PYTHONPATH; empty: none
  MpiContext mpi{};
  bool keeps_template = false;  // the template is kept for later jobs, so it has no variables of a single job
  std::int32_t gpu_count = 0;   // of the machine; known only in a job whose workers may share GPUs
  std::string interface{};      // the network interface to the store's host; empty: unknown, or loopback
};

// LOG_DIRECTORY/attempt_A/rank_R
std::string rank_directory(const wire::JobSpec& job, Attempt attempt, Rank rank);
// Returns ${XDG_STATE_HOME:-~/.local/state}/muster/JOB. The variables come from `own`, the agent's
// environment. Returns "" if neither XDG_STATE_HOME nor HOME is set there.
std::string fallback_log_directory(const Environment& own, const std::string& job_id);
// Returns the value of TORCHELASTIC_ERROR_FILE, the path of a file. This file is not in the rank's directory,
// because a worker may fail before that directory exists.
std::string error_file(const wire::JobSpec& job, Attempt attempt, Rank rank);
// Returns the value of MUSTER_TRACE_FILE. Only a job with tracing has this variable.
std::string trace_file(const NodeContext& node, const wire::JobSpec& job, Rank rank);

// Returns the variables that are equal for all ranks of the node.
Environment common_environment(const NodeContext& node, const wire::JobSpec& job,
                               const wire::PrepareAttempt& plan, const wire::StartWorkers& start);
// Returns the variables whose values differ between ranks. The names are the same for every rank.
Environment rank_environment(const NodeContext& node, const wire::JobSpec& job,
                             const wire::PrepareAttempt& plan, LocalRank local_rank);

// Returns the number of the GPU that a worker with this environment uses: entry `local_rank` of
// CUDA_VISIBLE_DEVICES. Returns nothing if this entry is missing, or is a UUID.
std::optional<std::uint32_t> gpu_of(const Environment& environment, LocalRank local_rank);

// Returns the variables as NAME=value, as they are passed to a program.
std::vector<std::string> entries_of(const Environment& environment);

// Returns the words that precede the rank's command. Usually there are none.
std::vector<std::string> wrapper_of(const wire::JobSpec& job, Rank rank);

// Replaces `${local_rank}` in the arguments, as torchrun does.
std::vector<std::string> arguments_of(const std::vector<std::string>& command, LocalRank local_rank);

}  // namespace muster::agent
