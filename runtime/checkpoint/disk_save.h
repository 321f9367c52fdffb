// One save on its way to the disk, and the threads that write it.
//
// The training thread makes a DiskSave and hands it to DiskWriter::begin(), which also copies the state into
// the staging memory; take() gives the save back when it has ended. In between, only the writing thread uses
// the save. SavePolicy decides about later saves, from the outcome of this one.
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

// A save: which state, where it is written, and how that ended.
//
// Invariants:
// - One thread has a DiskSave: the training thread before begin(), the writing thread until the save has
//   ended, the training thread again after take().
// - The fields above `meeting` are fixed when the writing thread gets the save.
// - Even a rank that cannot write takes part in the meeting to its end, because the others wait for its word.
//   Its `file` says why it cannot write.
// - The thread that has the save calls end() once. Before that, `outcome` is an error.
// The progress of a save is in the DiskWriter's Staging, which counts the bytes that are copied and written.
struct DiskSave {
  Job job;
  std::int64_t step = 0;
  CommitPlan plan;                             // the directory, the metrics, the deadlines
  bool leads = false;                          // this rank speaks for the group
  bool leads_job = false;                      // and for the job: it tells the agent of the commit
  std::optional<std::int64_t> newest_on_disk;  // before this save; for the warning if it fails
  bool is_refusal_known = false;       // an earlier save has warned that the state may not be committed
  FailedSaves* failed = nullptr;       // of the saves so far; used only by the thread that has the save
  Expected<RankFileLayout> file = {};  // this rank's share, which begin() sets; or why it is not written

  std::unique_ptr<Meeting> meeting = nullptr;  // of all ranks; the Checkpointer lends it to the save

  Status outcome = failure(ErrorCode::kInternal, "the save has not ended");
  TimePoint ended_at = {};

  // Sets the outcome, and tells the agent of a commit and the user of a failure.
  void end(Status an_outcome, TimePoint now);

 private:
  void warn_of_failure() const;
  std::string cause() const;
};

// Call it when a cause of failures is over. Prints how many saves failed, if not each was told.
void tell_failed_saves(FailedSaves& failed);

// Writes one save at a time. All public functions are for the training thread.
//
// Invariants: `save_` belongs to the writing thread while `done_` is not ready, and to the training thread
// else. Both threads use `staging_` and `thread_`, which lock. Nothing else that changes is shared.
class DiskWriter {
 public:
  // Locks the pages of the staging memory for the job's GPU, if it has one.
  DiskWriter(const Job& job, std::uint64_t staging_bytes);

  // Gets the memory for a file of this size in the background, so that the first save does not wait for it.
  // If that fails, begin() tries again.
  void reserve(std::uint64_t file_bytes);

  // Begins to write this rank's file of the save, and returns when the state is copied and may change. Call
  // only after take(). An error of this rank becomes its word in the meeting.
  void begin(std::unique_ptr<DiskSave> save, RankFile file);

  bool is_writing() const { return save_ != nullptr && done_.valid(); }  // take() may wait for a disk
  bool has_ended() const;  // take() has a save and does not wait
  // Waits for the work under way. Returns each save once it has ended; null if there is none.
  std::unique_ptr<DiskSave> take();

 private:
  void copy(RankFileSource& source, std::int64_t step, std::uint64_t file_bytes);
  // The functions below run on the writing thread.
  void write(DiskSave& save);
  Expected<RankContents> write_file(DiskSave& save, const std::string& directory);
  void remove_old_behind(const DiskSave& save);

  const Job job_;
  bool has_told_wait_ = false;  // the training thread's
  std::unique_ptr<DiskSave> save_;
  std::future<void> done_;
  Staging staging_;
  Background disk_{"muster-disk", 2, /*yielding=*/true};
  Background thread_{"muster-ckpt", 1, /*yielding=*/true};  // the last member: it uses the others
};

}  // namespace muster
