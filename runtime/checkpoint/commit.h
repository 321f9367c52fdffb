// Writing one checkpoint, all ranks together: the commit protocol of docs/checkpoint_layout.md, and the
// removal of old ones.
//
// Runs in the Checkpointer's writing thread. A failed save leaves nothing, or, if it failed after the
// manifest's rename, a whole checkpoint that is not reported.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/checkpoint/catalog.h"
#include "common/checkpoint/directory.h"
#include "runtime/checkpoint/meeting.h"

namespace muster {

struct CommitPlan {
  CheckpointDirectory directory;
  std::string job;
  Attempt attempt;
  RetentionPlan retention = {};
  std::chrono::milliseconds timeout{};
  std::chrono::milliseconds patience{};  // for rank 0's own file, before the others' time begins
  std::map<std::string, double> metrics = {};
  std::map<std::string, std::string> topology = {};
};

// Writes this rank's file into the directory of the checkpoint.
using WriteRankFile = std::function<Expected<RankContents>(const std::string& directory)>;

// A status as one rank tells it to others, and back: kFenced and kCorrupt stay so, and what else may have
// failed is kUnavailable.
std::string word_of(const Status& status);
Status status_of(const std::string& word);

// kFenced if an attempt newer than plan.attempt has begun; the message says which job on which host. Never
// kCorrupt.
Status check_fence(const CommitPlan& plan);

// Every rank calls it with what writes its file or says why it has none, in a meeting of its own. Rank 0
// decides, and all ranks return the same: committed; kFenced: a newer attempt has taken over, and the message
// says who; kUnavailable: it failed, and all may try again in another meeting; kCorrupt: the same, because
// what a rank has to write may not be committed as it is. kTimedOut: this rank alone has not heard the
// decision, so that it must leave its file as it is. An exception of torch if the store is gone before this
// rank has given its word.
Status commit_checkpoint(const CommitPlan& plan, Meeting& meeting, std::uint64_t step,
                         const WriteRankFile& write);

// What retention.h lets go after the commit of step `newest`. What other ranks may be writing by now is
// newer, and stays.
Expected<std::vector<CheckpointId>> old_ones(const CommitPlan& plan, std::uint64_t newest);
Status remove_all(const CheckpointDirectory& directory, const std::vector<CheckpointId>& ids);

}  // namespace muster
