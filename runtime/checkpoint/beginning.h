// How a job starts to write into a checkpoint directory: rank 0 finds out which attempt this is and tells the
// others, and all ranks check that they see the same directory.
//
// For the constructor of a Checkpointer, on the training thread.
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

// A failure that all ranks have together. Only one rank prints it.
struct CheckpointError : std::runtime_error, OnAllRanks {
  CheckpointError(const std::string& text, OnAllRanks nature) : runtime_error(text), OnAllRanks(nature) {}
};

struct Beginning {
  Attempt attempt;
  std::optional<std::uint64_t> resumable;  // the newest step to resume from when this attempt began
  std::vector<Attempt> of_this_job;        // this attempt and the earlier ones of this job; rank 0's alone
  Seconds job_age{};                       // since the first of these began; rank 0's alone
};

// All ranks call it together. Throws CheckpointError, which says why the directory cannot be used, or which
// rank sees another directory under this path.
Beginning begin_together(const Job& job, const CheckpointDirectory& directory, Meeting& meeting);

// A Checkpointer holds one while it writes into a directory. The constructor throws std::invalid_argument if
// another Checkpointer of this job holds one for the same directory: each would take the other's steps for
// its own.
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
