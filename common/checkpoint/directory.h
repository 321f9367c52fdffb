// The directory that holds all checkpoints of a training, over attempts and launches: which attempt came from
// which checkpoint (the lineage), which checkpoints count, and which process may write.
// docs/checkpoint_layout.md describes the layout.
//
// The launcher uses it to begin attempts, the runtime to write, choose and remove checkpoints; several
// processes use one directory at once. Holds only the path: each call blocks and reads the disk again. Does
// not read or write tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/wire/attempt_record.h"

namespace muster {

// A directory step-S.attempt-A that has a manifest.
struct CheckpointEntry {
  CheckpointId id;
  std::optional<Error> damage;  // why its manifest cannot be used
};

// kInvalidArgument, with advice, if only a newer version of Muster can read the newest whole checkpoint:
// skipping it would lose the training since the checkpoint before.
Status check_formats(const std::vector<CheckpointEntry>& entries);

std::string directory_name(CheckpointId id);  // "step-300.attempt-2"
// Returns nothing unless the name is spelled exactly so.
std::optional<CheckpointId> parse_directory_name(std::string_view name);

std::string rank_file_name(std::int32_t rank);  // "rank-00003.safetensors"

class CheckpointDirectory {
 public:
  explicit CheckpointDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string path_of(CheckpointId id) const;  // PATH/step-S.attempt-A
  std::string manifest_path(CheckpointId id) const;
  std::string attempt_path(Attempt attempt) const;

  // Creates the directory if it is missing, and a file in it. kPermission, or the system's error; the message
  // is one line that names the directory.
  Status check_writable() const;

  // Returns all attempts, oldest first. kCorrupt names a file in PATH/attempts that is not one of Muster's or
  // cannot be read.
  Expected<std::vector<AttemptRecord>> attempts() const;
  // kNotFound if the checkpoint is not committed; kCorrupt if its manifest cannot be used or belongs to
  // another checkpoint.
  Expected<CheckpointManifest> read_manifest(CheckpointId id) const;
  // Returns the checkpoints with a usable manifest, by step and attempt. Not all count: see resumable().
  Expected<std::vector<CheckpointId>> committed() const;
  // Returns every step directory, committed or not, by step and attempt.
  Expected<std::vector<CheckpointId>> step_directories() const;

  // Returns the checkpoints that the chain of attempt files leads to, newest first. The chain starts at
  // `from` (by default the newest attempt): the checkpoints that `from` wrote, then those of the attempt that
  // it resumed from, up to that step, and so on. Includes entries with a damaged manifest, so that the caller
  // can say what it skips.
  Expected<std::vector<CheckpointEntry>> candidates(std::optional<Attempt> from = {}) const;
  // Returns those of `ids` that the chain from the newest attempt leads to: newest first, committed or not.
  Expected<std::vector<CheckpointId>> counting(const std::vector<CheckpointId>& ids) const;
  // candidates() without the damaged ones.
  Expected<std::vector<CheckpointId>> resumable() const;
  // Committed checkpoints whose attempt has no attempt file: this directory was not written by Muster alone.
  Expected<std::vector<CheckpointId>> unrecorded() const;

  // Takes the directory over: claims the next number, which fences all older attempts, then writes the
  // attempt's file, which says that it resumes from the newest of resumable(). Concurrent callers get
  // different numbers. Without `take_over`, only one of several concurrent callers on a machine succeeds; if
  // another living process of the machine has the newest attempt, none does (kFenced). Returns the error of
  // check_formats() before it claims anything.
  Expected<AttemptRecord> begin_attempt(const std::string& job, bool take_over = true) const;
  // Returns the record of the attempt with the highest number. Nothing if there is none or it cannot be read.
  std::optional<AttemptRecord> newest() const;
  // Checks the fence: kFenced if a newer attempt than `mine` has begun; the message names that attempt, its
  // job and its host.
  Status check_newest(Attempt mine) const;

  // A pinned checkpoint is kept until it is unpinned; nothing removes it before. The pin is a file next to
  // the manifest. kNotFound if there is no such checkpoint.
  bool is_pinned(CheckpointId id) const;
  Status pin(CheckpointId id) const;
  Status unpin(CheckpointId id) const;

  // Syncs the commit to disk. Needed if the writer was killed before it synced.
  Status sync(CheckpointId id) const;
  // Removes a checkpoint, its manifest first: a crash in between leaves an uncommitted directory, not a
  // damaged checkpoint. kPermission if it is pinned.
  Status remove(CheckpointId id) const;

 private:
  std::string attempts_path() const { return path_ + "/attempts"; }
  std::string claim_path(Attempt attempt) const;
  Expected<AttemptRecord> read_attempt(Attempt attempt) const;
  Expected<AttemptRecord> read_begun(Attempt attempt) const;
  Expected<AttemptRecord> read_record(const std::string& path, Attempt attempt) const;
  Expected<std::vector<Attempt>> recorded() const;
  Expected<std::vector<Attempt>> claimed() const;
  Expected<std::vector<Attempt>> numbers_with(std::string_view ending) const;
  Expected<Attempt> newest_number() const;
  Expected<Attempt> claim_number(const std::string& job) const;
  Expected<Attempt> claim_unused(const std::string& job) const;
  Expected<AttemptRecord> record_claimed(const std::string& job, Attempt number,
                                         const std::optional<CheckpointId>& known) const;
  CheckpointEntry read_entry(CheckpointId id) const;
  Expected<std::vector<CheckpointEntry>> chain_from(const std::vector<AttemptRecord>& records,
                                                    Attempt from) const;
  Expected<std::optional<CheckpointId>> newest_from(const std::vector<AttemptRecord>& records,
                                                    std::optional<CheckpointId> known = {}) const;
  Expected<Attempt> unused_number() const;

  std::string path_;
};

}  // namespace muster
