// The directory that holds all checkpoints of a training, across attempts and launches. It records from which
// checkpoint each attempt resumed, which checkpoints count, and which process is allowed to write.
// docs/checkpoint_layout.md describes the layout.
//
// The launcher begins attempts with it; the runtime writes, chooses and removes checkpoints. Several
// processes can use one directory at once. The class holds only the path: each call blocks and reads the disk
// again. It does not read or write tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/wire/attempt_record.h"

namespace muster {

// A checkpoint that has a manifest, in a directory named step-S.attempt-A.
struct CheckpointEntry {
  CheckpointId id;
  std::optional<Error> damage;  // set if its manifest cannot be used
};

// Checks the formats of `entries`, which must be sorted with the newest first. Returns kInvalidArgument, with
// advice, if the newest undamaged checkpoint has a format that only a newer version of Muster can read.
// Without this check that checkpoint would be skipped, and its training would be lost.
Status check_formats(const std::vector<CheckpointEntry>& entries);

std::string directory_name(CheckpointId id);  // "step-300.attempt-2"
// Parses a name that directory_name() has made. For any other spelling, returns nothing.
std::optional<CheckpointId> parse_directory_name(std::string_view name);

std::string rank_file_name(std::int32_t rank);  // "rank-00003.safetensors"
std::string name_of(CheckpointId id);           // for people: "step 300 of attempt 2"
// Why a checkpoint of CheckpointDirectory::unrecorded() cannot be used.
inline constexpr const char* kNoAttemptFile = "its attempt file is missing";

// The checkpoints that were tried in vain, and why. Consecutive ones with the same reason are one group.
class PassedOver {
 public:
  struct Group {
    std::string names;  // "step 300 of attempt 2, step 200 of attempt 1"
    std::string why;
  };
  void add(CheckpointId id, const std::string& why);
  const std::vector<Group>& groups() const { return groups_; }
  // Returns the error for the directory `path` if all of its checkpoints were tried in vain: kInvalidArgument
  // if `misfits` says that they are whole but do not fit the program, and kCorrupt otherwise.
  Error none_can_be_used(const std::string& path, bool misfits = false) const;

 private:
  std::vector<Group> groups_;
};

class CheckpointDirectory {
 public:
  explicit CheckpointDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string path_of(CheckpointId id) const;  // PATH/step-S.attempt-A
  std::string manifest_path(CheckpointId id) const;
  std::string attempt_path(Attempt attempt) const;

  // Creates the directory if it is missing, then creates and removes a file in it. The error is kPermission
  // or another error of the system. Its message is one line that names the directory.
  Status check_writable() const;

  // Returns all attempts, the oldest first. Returns kCorrupt if a file in PATH/attempts is damaged, or if
  // Muster did not write it. The message names the file.
  Expected<std::vector<AttemptRecord>> attempts() const;
  // Returns kNotFound if the checkpoint is not committed. Returns kCorrupt if its manifest cannot be used, or
  // is that of another checkpoint.
  Expected<CheckpointManifest> read_manifest(CheckpointId id) const;
  // Returns the checkpoints that have a usable manifest, sorted by step and then by attempt. A training can
  // resume only from some of them: see resumable().
  Expected<std::vector<CheckpointId>> committed() const;
  // Returns every step directory, committed or not, sorted by step and then by attempt.
  Expected<std::vector<CheckpointId>> step_directories() const;

  // Returns the checkpoints of a chain of attempts, newest first. The chain is attempt `from` (by default the
  // newest one), the attempt from whose checkpoint `from` resumed, and so on. For an earlier attempt, returns
  // only the checkpoints up to the step that the next attempt resumed from. Includes checkpoints with a
  // damaged manifest, even those that `from` itself skipped, so that the caller can say which ones it skips.
  Expected<std::vector<CheckpointEntry>> candidates(std::optional<Attempt> from = {}) const;
  // Returns those of `ids` that are in the chain of the newest attempt (see candidates()). The newest one
  // comes first. The function does not check whether they are committed.
  Expected<std::vector<CheckpointId>> counting(const std::vector<CheckpointId>& ids) const;
  // Returns the checkpoints of candidates(), but not the damaged ones.
  Expected<std::vector<CheckpointId>> resumable() const;
  // Returns the committed checkpoints, damaged ones too, whose attempt has no attempt file. Muster itself
  // leaves no such checkpoints. If there are some, another program has changed the directory.
  Expected<std::vector<CheckpointId>> unrecorded() const;

  // Takes the directory over for a new attempt. First claims the next attempt number: from then on,
  // check_newest() fails for all older attempts. Then writes the attempt's file, which says that the attempt
  // resumes from the newest of resumable(). Concurrent callers get different numbers.
  // If `take_over` is false, the function does not take the directory from a living process of this machine:
  // if another such process has the newest attempt, it returns kFenced. If several callers on a machine run
  // at once, only one of them succeeds.
  // The function claims nothing, and returns the error, in these cases:
  // - kCorrupt: no checkpoint is resumable, but there are damaged or unrecorded() ones. If the attempt began
  //   without a checkpoint, these would no longer count, even if somebody repaired them later.
  // - Any other code: a checkpoint is newer than the newest resumable one, and its manifest has a newer
  //   format or cannot be read now.
  Expected<AttemptRecord> begin_attempt(const std::string& job, bool take_over = true) const;
  // Returns the record of the attempt with the highest number. Returns nothing if there is no attempt, or if
  // its record cannot be read.
  std::optional<AttemptRecord> newest() const;
  // If an attempt newer than `mine` has begun, returns kFenced. The message names that attempt, its job and
  // its host. If the files of attempt `mine` are gone, returns kNotFound: the directory was moved or removed.
  Status check_newest(Attempt mine) const;

  // A pinned checkpoint cannot be removed: remove() refuses it. The pin is a file next to the manifest. These
  // functions return kNotFound if there is no such checkpoint.
  bool is_pinned(CheckpointId id) const;
  Status pin(CheckpointId id) const;
  Status unpin(CheckpointId id) const;

  // Makes sure that the commit is on disk. Call this if the writer may have been killed before it synced.
  Status sync(CheckpointId id) const;
  // Removes a checkpoint. The manifest is removed first. So if there is a crash in between, the directory
  // counts as not committed, and not as damaged. Returns kPermission if the checkpoint is pinned.
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
  std::optional<CheckpointEntry> read_entry(CheckpointId id) const;  // none if it is not committed
  Expected<std::vector<CheckpointEntry>> chain_from(const std::vector<AttemptRecord>& records,
                                                    Attempt from) const;
  Expected<std::optional<CheckpointId>> newest_from(const std::vector<AttemptRecord>& records,
                                                    std::optional<CheckpointId> known = {}) const;
  Expected<Attempt> unused_number() const;

  std::string path_;
};

}  // namespace muster
