// The directory that holds all checkpoints of a training, across attempts and launches. Says from which
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

// A directory step-S.attempt-A that has a manifest.
struct CheckpointEntry {
  CheckpointId id;
  std::optional<Error> damage;  // set if its manifest cannot be used
};

// `entries`: newest first. Returns kInvalidArgument, with advice, if the newest undamaged checkpoint has a
// format that only a newer version of Muster reads. To skip that checkpoint would lose training.
Status check_formats(const std::vector<CheckpointEntry>& entries);

std::string directory_name(CheckpointId id);  // "step-300.attempt-2"
// Parses a name that directory_name() returned. Returns nothing for any other spelling.
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
  // if they are `misfits`, which only do not fit the program, otherwise kCorrupt.
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

  // Returns all attempts, oldest first. kCorrupt names a file in PATH/attempts that Muster did not write or
  // that is damaged.
  Expected<std::vector<AttemptRecord>> attempts() const;
  // kNotFound if the checkpoint is not committed; kCorrupt if its manifest cannot be used or belongs to
  // another checkpoint.
  Expected<CheckpointManifest> read_manifest(CheckpointId id) const;
  // Returns the checkpoints with a usable manifest, in the order of steps and attempts. Not all
  // count: see resumable().
  Expected<std::vector<CheckpointId>> committed() const;
  // Returns every step directory, committed or not, in the order of steps and attempts.
  Expected<std::vector<CheckpointId>> step_directories() const;

  // Returns the checkpoints of a chain of attempts, newest first. The chain is attempt `from` (by default the
  // newest one), the attempt from whose checkpoint `from` resumed, and so on. For an earlier attempt, returns
  // only the checkpoints up to the step that the next attempt resumed from. Includes checkpoints with a
  // damaged manifest, so that the caller can say what it skips: also those that `from` itself skipped.
  Expected<std::vector<CheckpointEntry>> candidates(std::optional<Attempt> from = {}) const;
  // Returns those of `ids` that are in the chain of the newest attempt (see candidates()): newest first,
  // committed or not.
  Expected<std::vector<CheckpointId>> counting(const std::vector<CheckpointId>& ids) const;
  // Returns candidates() without the damaged checkpoints.
  Expected<std::vector<CheckpointId>> resumable() const;
  // Returns the committed checkpoints, damaged ones too, whose attempt has no attempt file. Muster leaves
  // none: another program has changed the directory.
  Expected<std::vector<CheckpointId>> unrecorded() const;

  // Takes the directory over. First claims the next attempt number: from then on, check_newest() fails for
  // all older attempts. Then writes the attempt's file, which says that the attempt resumes from the newest
  // of resumable(). Concurrent callers get different numbers. If `take_over` is false: returns kFenced if
  // another living process of the machine has the newest attempt. If several callers on a machine run at
  // once, only one succeeds. Claims nothing, and returns the error, in these cases:
  // - kCorrupt: candidates() are damaged or there are unrecorded() ones, and none is resumable. An attempt
  //   from nothing would end their chain, even if somebody repaired them later.
  // - Any other code: a manifest newer than that of the newest resumable checkpoint has a newer format, or it
  //   cannot be read now.
  Expected<AttemptRecord> begin_attempt(const std::string& job, bool take_over = true) const;
  // Returns the record of the attempt with the highest number. Returns nothing if there is no attempt or its
  // record cannot be read.
  std::optional<AttemptRecord> newest() const;
  // Returns kFenced if an attempt newer than `mine` has begun. The message names that attempt, its job
  // and its host.
  Status check_newest(Attempt mine) const;

  // remove() refuses a pinned checkpoint. The pin is a file next to the manifest. kNotFound: there is
  // no such checkpoint.
  bool is_pinned(CheckpointId id) const;
  Status pin(CheckpointId id) const;
  Status unpin(CheckpointId id) const;

  // Syncs the commit to disk. Call this if the writer may have been killed before it synced.
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
  std::optional<CheckpointEntry> read_entry(CheckpointId id) const;  // none if it is not committed
  Expected<std::vector<CheckpointEntry>> chain_from(const std::vector<AttemptRecord>& records,
                                                    Attempt from) const;
  Expected<std::optional<CheckpointId>> newest_from(const std::vector<AttemptRecord>& records,
                                                    std::optional<CheckpointId> known = {}) const;
  Expected<Attempt> unused_number() const;

  std::string path_;
};

}  // namespace muster
