// All ranks write one checkpoint together: the commit protocol of docs/checkpoint_layout.md. Also removes old
// checkpoints.
//
// Call these functions on the writing thread of a DiskWriter. A failed save leaves nothing behind; if it
// failed after the rename of the manifest, it leaves a complete checkpoint that nobody reports.
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

// Says where and how checkpoints are written. A plan does not change while a checkpoint is written. Only rank
// 0's retention, metrics and topology count.
struct CommitPlan {
  CheckpointDirectory directory;
  std::string job;
  Attempt attempt;
  RetentionPlan retention = {};
  std::chrono::milliseconds timeout{};   // for the other ranks' files, once rank 0 has written its own
  std::chrono::milliseconds patience{};  // for rank 0's own file
  std::map<std::string, double> metrics = {};
  std::map<std::string, std::string> topology = {};
};

// Writes this rank's file into the directory of the checkpoint.
using WriteRankFile = std::function<Expected<RankContents>(const std::string& directory)>;

// Translate a status into the word that a rank tells the others, and back. kFenced and kCorrupt stay what
// they are; every other error becomes kUnavailable.
std::string word_of(const Status& status);
Status status_of(const std::string& word);

// kFenced if an attempt newer than plan.attempt has begun; the message says which job on which host. Never
// kCorrupt.
Status check_fence(const CommitPlan& plan);

// Every rank calls it in the same meeting, which nothing else uses meanwhile. `write` writes the rank's file
// or returns why it cannot. Rank 0 decides, and all ranks return the same:
// - success: the checkpoint is committed;
// - kFenced: a newer attempt has taken over; the message says which job on which host;
// - kUnavailable: the save failed; all ranks may try again in another meeting;
// - kCorrupt: a rank's share of the state may not be committed; all ranks may try again in another meeting.
// Only a rank that has not heard the decision returns kTimedOut; that rank must leave its file as it is.
// Throws torch's exception if the store is gone before this rank has given its word.
Status commit_checkpoint(const CommitPlan& plan, Meeting& meeting, std::uint64_t step,
                         const WriteRankFile& write);

// Returns the checkpoints that retention.h gives up after the commit of step `newest`. A checkpoint that
// other ranks are writing by now is newer, and is never among them.
Expected<std::vector<CheckpointId>> old_ones(const CommitPlan& plan, std::uint64_t newest);
Status remove_all(const CheckpointDirectory& directory, const std::vector<CheckpointId>& ids);

}  // namespace muster
