// What a worker finds in its environment and on its command line: torchrun's whole contract and Muster's own
// names.
//
// Pure: the agent's own environment and machine are passed in. The source of the contract is the
// documentation of torchrun and torch.distributed's env:// initialisation.
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

// What serves the ranks of an MPI job.
struct MpiContext {
  wire::Mpi kind = wire::Mpi::kNone;  // never kAuto
  std::string segments{};             // directory for the memory that ranks share; empty: none of their own
};

// What the whole node has in common in one attempt.
struct NodeContext {
  Environment inherited;  // the agent's own
  std::int32_t core_count = 1;
  NodeId node;
  Attempt attempt;
  std::string socket_path;      // MUSTER_SOCKET
  std::string run_directory;    // on a local disk, there before any worker; empty if there is none
  std::string python_module{};  // file for the end of PYTHONPATH; empty: none
  MpiContext mpi{};
  std::string interface{};  // from which the node reaches the store; empty: not known, or loopback
};

// LOG_DIRECTORY/attempt_A/rank_R
std::string rank_directory(const wire::JobSpec& job, Attempt attempt, Rank rank);
// ${XDG_STATE_HOME:-~/.local/state}/muster/JOB; empty if `own`, the agent's environment, names no place.
std::string fallback_log_directory(const Environment& own, const std::string& job_id);
// TORCHELASTIC_ERROR_FILE. A worker may fail before its log directory has been made.
std::string error_file(const NodeContext& node, const wire::JobSpec& job, Rank rank);
// MUSTER_TRACE_FILE, of a job that is traced.
std::string trace_file(const NodeContext& node, const wire::JobSpec& job, Rank rank);

// All but what is a rank's own.
Environment common_environment(const NodeContext& node, const wire::JobSpec& job,
                               const wire::PrepareAttempt& plan, const wire::StartWorkers& start);
// What each rank has besides that; the names are the same for all.
Environment rank_environment(const NodeContext& node, const wire::JobSpec& job,
                             const wire::PrepareAttempt& plan, LocalRank local_rank);

// The number of the GPU that a worker with this environment takes by its LOCAL_RANK; none if its list names
// none at that place, or names it by its UUID.
std::optional<std::uint32_t> gpu_of(const Environment& environment, LocalRank local_rank);

// NAME=value, as a program gets it.
std::vector<std::string> entries_of(const Environment& environment);

// The words that stand before the rank's command; none, as a rule.
std::vector<std::string> wrapper_of(const wire::JobSpec& job, Rank rank);

// `${local_rank}` in the arguments is replaced, as torchrun does.
std::vector<std::string> arguments_of(const std::vector<std::string>& command, LocalRank local_rank);

}  // namespace muster::agent
