// A DiskSave describes one save to the disk. A DiskWriter has the threads that write the save.
//
// The training thread makes a DiskSave and passes it to DiskWriter::begin(), which copies the state into the
// staging memory. After that, only the writing thread uses the save. When the save has ended, take() returns
// it to the training thread.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <muster/comm/job.h>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "runtime/checkpoint/background.h"
#include "runtime/checkpoint/commit.h"
#include "runtime/checkpoint/meeting.h"
#include "runtime/checkpoint/rank_file.h"
#include "runtime/checkpoint/save_policy.h"
#include "runtime/checkpoint/staging.h"

namespace muster {

// Describes one save: its step, where it is written, and its outcome.
//
// Invariants:
// - One thread at a time owns a DiskSave. Before begin(), it is the training thread. From then until the save
//   has ended, it is the writing thread. After take(), it is the training thread again.
// - The members above `meeting` are set before the writing thread gets the save.
// - If a rank cannot write, it still takes part in the meeting until the end, because the other ranks wait
//   for it. Its `file` says why it cannot write.
// - The thread that owns the save calls end() once. Before that call, `outcome` says that the save has not
//   ended.
struct DiskSave {
  Job job;
  std::int64_t step = 0;
  CommitPlan plan;                             // the directory, the metrics, the deadlines
  bool leads = false;                          // the group's rank 0: it warns, and removes old checkpoints
  bool leads_job = false;                      // this rank tells the agent whether the save is committed
  std::optional<std::int64_t> newest_on_disk;  // the newest step on the disk before this save
  bool is_refusal_known = false;       // an earlier save has warned that the state must not be committed
  FailedSaves* failed = nullptr;       // counts the failed saves; only the thread that owns the save uses it
  Expected<RankFileLayout> file = {};  // set by begin(): this rank's file, or why it cannot be written

  std::unique_ptr<Meeting> meeting = nullptr;  // of all ranks; the Checkpointer lends it to the save

  Status outcome = failure(ErrorCode::kInternal, "the save has not ended");
  TimePoint ended_at = {};

  // Sets the outcome. If the save is committed, or if a newer attempt has taken over, this function tells the
  // agent. If the save failed for any other reason, it warns the user.
  void end(Status an_outcome, TimePoint now);

 private:
  void warn_of_failure() const;
  std::string cause() const;
};

// Call it when the cause of the failed saves is gone. If more than one save failed, prints how many.
void tell_failed_saves(FailedSaves& failed);

// Writes one save at a time. Call all public functions on the training thread.
//
// Invariants: `done_` says whether the writing thread has ended its work. Until then, `save_` belongs to the
// writing thread. At all other times, `save_` belongs to the training thread. Both threads use `staging_` and
// `thread_`, which have their own locks. The threads share no other data that changes.
class DiskWriter {
 public:
  // If the job runs on a GPU, the pages of the staging memory are locked for copies from that GPU.
  DiskWriter(const Job& job, std::uint64_t staging_bytes);

  // Allocates the memory for a file of this size, on a background thread, so that the first save does not
  // wait for it. If this fails, begin() tries again.
  void reserve(std::uint64_t file_bytes);

  // Begins to write this rank's file of the save. Call take() before it. begin() returns when it has copied
  // the state, so that the program can change the state. If this rank fails, the other ranks learn of it in
  // the meeting.
  void begin(std::unique_ptr<DiskSave> save, RankFile file);

  bool is_writing() const { return save_ != nullptr && done_.valid(); }  // take() may wait for a disk
  bool has_ended() const;  // true: take() returns a save without waiting
  // Waits until the current save has ended, and returns it. Returns null if there is none.
  std::unique_ptr<DiskSave> take();

 private:
  void copy(RankFileSource& source, std::int64_t step, std::uint64_t file_bytes);
  // The functions below run on the writing thread.
  void write(DiskSave& save);
  Expected<RankContents> write_file(DiskSave& save, const std::string& directory);
  void remove_old_behind(const DiskSave& save);

  const Job job_;
  bool has_told_wait_ = false;  // only the training thread uses it
  std::unique_ptr<DiskSave> save_;
  std::future<void> done_;
  Staging staging_;
  Background disk_{"muster-disk", 2, /*yielding=*/true};
  Background thread_{"muster-ckpt", 1, /*yielding=*/true};  // the last member: it uses those above
};

}  // namespace muster
