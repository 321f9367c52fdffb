// Begins to use a checkpoint directory for a job. Rank 0 finds out which attempt this is, and tells it to the
// other ranks. All ranks check that they see the same directory.
//
// The constructor of a Checkpointer calls these functions on the training thread.
#pragma once

#include <muster/comm/job.h>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/checkpoint/directory.h"
#include "runtime/checkpoint/meeting.h"
#include "runtime/rank/uncaught.h"

namespace muster {

// If one rank throws this error, all ranks throw it for the same failure. Only one of them prints it.
struct CheckpointError : std::runtime_error, OnAllRanks {
  CheckpointError(const std::string& text, OnAllRanks nature) : runtime_error(text), OnAllRanks(nature) {}
};

struct Beginning {
  Attempt attempt;
  std::optional<std::uint64_t> resumable;  // the newest step to resume from when this attempt began
  std::vector<Attempt> of_this_job;        // this attempt and this job's earlier ones; only on rank 0
  Seconds job_age{};                       // since the first of these attempts began; only on rank 0
};

// All ranks call this function together. It throws CheckpointError if the directory cannot be used, or if a
// rank sees another directory under the same path. It throws std::runtime_error if rank 0 does not answer.
Beginning begin_together(const Job& job, const CheckpointDirectory& directory, Meeting& meeting);

// While a Checkpointer writes to a directory, it has an object of this class, which marks the directory as
// used. If another Checkpointer of this job uses the directory, the constructor throws std::invalid_argument.
// Otherwise, each of the two would think that the other's checkpoints were its own.
class DirectoryUse {
 public:
  DirectoryUse(const Job& job, const std::string& directory);
  ~DirectoryUse();
  DirectoryUse(const DirectoryUse&) = delete;
  DirectoryUse& operator=(const DirectoryUse&) = delete;

 private:
  std::pair<const void*, std::string> use_;
};

}  // namespace muster
