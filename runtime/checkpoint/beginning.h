// How a job comes to write into a checkpoint directory: which attempt it is, found out by rank 0 and told to
// the others, and whether all ranks mean the same directory.
//
// For the constructor of a Checkpointer.
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

// All ranks have it, and rank 0 tells.
struct CheckpointError : std::runtime_error, OnAllRanks {
  CheckpointError(const std::string& text, OnAllRanks nature) : runtime_error(text), OnAllRanks(nature) {}
};

struct Beginning {
  Attempt attempt;
  std::optional<std::uint64_t> resumable;  // the newest step that could be resumed from when it began
  std::vector<Attempt> of_this_job;  // this attempt and those that the job's restarts came after; rank 0's
  Seconds job_age{};                 // since the first of these began; rank 0's
};

// All ranks together. CheckpointError, which says why the directory cannot be used, or which rank has another
// one in its place.
Beginning begin_together(const Job& job, const CheckpointDirectory& directory, Meeting& meeting);

// Two Checkpointers of one job that write into one directory would take each other's steps for their own:
// std::invalid_argument. Held as long as one writes.
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
