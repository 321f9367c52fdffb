// All ranks write one checkpoint together: the commit protocol of docs/checkpoint_layout.md. Also removes old
// checkpoints.
//
// Call these functions on the writing thread of a DiskWriter. A failed save removes its files. But if it
// fails after the manifest was renamed, the checkpoint is complete and stays, and no rank reports it.
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

// word_of() turns a status into a text that one rank can send to another; status_of() turns the text back
// into a status. kFenced and kCorrupt stay what they are. Every other error becomes kUnavailable.
std::string word_of(const Status& status);
Status status_of(const std::string& word);

// Returns kFenced if an attempt newer than plan.attempt has begun; the message names its job and host. Never
// returns kCorrupt.
Status check_fence(const CommitPlan& plan);

// Every rank calls it in the same meeting, which nothing else uses meanwhile. `write` writes this rank's
// file, or returns why it cannot. Rank 0 decides, and all ranks return its decision:
// - success: the checkpoint is committed;
// - kFenced: a newer attempt has taken over; the message names its job and host;
// - kUnavailable: the save failed; all ranks can try again in another meeting;
// - kCorrupt: a rank's share of the state must not be committed; all ranks can try again in another meeting.
// A rank that does not hear the decision returns kTimedOut, and must leave its file as it is. Throws torch's
// exception if the store is gone before this rank has told rank 0 its result, or before rank 0 has announced
// its decision.
Status commit_checkpoint(const CommitPlan& plan, Meeting& meeting, std::uint64_t step,
                         const WriteRankFile& write);

// Returns the checkpoints that `plan.retention` does not keep once step `newest` is committed. Never returns
// a newer checkpoint, which other ranks may be writing.
Expected<std::vector<CheckpointId>> old_ones(const CommitPlan& plan, std::uint64_t newest);
Status remove_all(const CheckpointDirectory& directory, const std::vector<CheckpointId>& ids);

}  // namespace muster
