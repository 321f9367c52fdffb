// All ranks write one checkpoint together. docs/checkpoint_layout.md describes the protocol. This file also
// has the functions that remove old checkpoints.
//
// Call these functions on the writing thread of a DiskWriter. If a save fails, its files are removed. There
// is one exception: if it fails after the manifest was renamed, the checkpoint is complete. Then it stays,
// but no rank reports it.
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
// 0 uses `retention`, `metrics` and `topology`.
struct CommitPlan {
  CheckpointDirectory directory;
  std::string job;
  Attempt attempt;
  RetentionPlan retention = {};
  std::chrono::milliseconds timeout{};   // how long rank 0 waits for the others' files after writing its own
  std::chrono::milliseconds patience{};  // how long rank 0 gets to write its own file
  std::map<std::string, double> metrics = {};
  std::map<std::string, std::string> topology = {};
};

// Writes this rank's file into the directory of the checkpoint.
using WriteRankFile = std::function<Expected<RankContents>(const std::string& directory)>;

// word_of() turns a status into a text that one rank can send to another. status_of() turns such a text back
// into a status. The error codes kFenced and kCorrupt are kept. All other error codes become kUnavailable.
std::string word_of(const Status& status);
Status status_of(const std::string& word);

// Returns kFenced if an attempt has begun that is newer than plan.attempt. The message names the job and the
// host of that attempt. Returns kNotFound if the directory is gone. This function never returns kCorrupt.
Status check_fence(const CommitPlan& plan);

// Every rank calls commit_checkpoint() in the same meeting. The ranks must not use the meeting for anything
// else until commit_checkpoint() has returned. `write` writes this rank's file, or returns an error if it
// cannot. Rank 0 decides what happens with the checkpoint, and all ranks return its decision:
// - success: the checkpoint is committed;
// - kFenced: a newer attempt has taken over, and the message names its job and host;
// - kUnavailable: the save failed, and all ranks can try again in another meeting;
// - kCorrupt: some rank's share of the state must not be committed, and all ranks can try again in another
//   meeting.
// If a rank does not get the decision, it returns kTimedOut, and must leave its file as it is. The function
// throws torch's exception if the store ends too early, that is, before this rank has told rank 0 its result,
// or before rank 0 has announced its decision.
Status commit_checkpoint(const CommitPlan& plan, Meeting& meeting, std::uint64_t step,
                         const WriteRankFile& write);

// Returns the checkpoints that can be removed when step `newest` is committed, because `plan.retention` does
// not keep them. It never returns a checkpoint newer than `newest`, because other ranks may be writing it.
Expected<std::vector<CheckpointId>> old_ones(const CommitPlan& plan, std::uint64_t newest);
Status remove_all(const CheckpointDirectory& directory, const std::vector<CheckpointId>& ids);

}  // namespace muster
