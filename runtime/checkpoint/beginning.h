// How a job starts to write into a checkpoint directory: rank 0 finds out which attempt this is and tells the
// others, and all ranks check that they see the same directory.
//
// The constructor of a Checkpointer uses these functions, on the training thread.
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

// Thrown on all ranks for the same failure. Only one rank prints it.
struct CheckpointError : std::runtime_error, OnAllRanks {
  CheckpointError(const std::string& text, OnAllRanks nature) : runtime_error(text), OnAllRanks(nature) {}
};

struct Beginning {
  Attempt attempt;
  std::optional<std::uint64_t> resumable;  // the newest step to resume from when this attempt began
  std::vector<Attempt> of_this_job;        // this attempt and this job's earlier ones; only on rank 0
  Seconds job_age{};                       // since the first of these attempts began; only on rank 0
};

// All ranks call it together. Throws CheckpointError if the directory cannot be used, or if a rank sees
// another directory under this path. Throws std::runtime_error if rank 0 does not answer.
Beginning begin_together(const Job& job, const CheckpointDirectory& directory, Meeting& meeting);

// Marks a directory as used by a Checkpointer, which holds this object while it writes there. The constructor
// throws std::invalid_argument if another Checkpointer of this job uses the directory: each would take the
// other's checkpoints for its own.
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
