// The directory that holds all checkpoints of a training, over attempts and launches: which attempt came from
// which checkpoint (the lineage), which checkpoints count, and who may write. The layout is described in
// docs/checkpoint_layout.md.
//
// Used by the launcher (begins attempts) and the runtime (writes, chooses and removes checkpoints); several
// processes use one directory at once. Holds nothing but the path: each call reads the disk anew. Blocking.
// Tensors are read and written elsewhere.
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

// kInvalidArgument says what to do where the newest of these that is whole, as far as this version can tell,
// is of a format that only newer versions read. To pass over it would lose what was trained since.
Status check_formats(const std::vector<CheckpointEntry>& entries);

std::string directory_name(CheckpointId id);  // "step-300.attempt-2"
// Nothing if the name is not spelt exactly so.
std::optional<CheckpointId> parse_directory_name(std::string_view name);

std::string rank_file_name(std::int32_t rank);  // "rank-00003.safetensors"

class CheckpointDirectory {
 public:
  explicit CheckpointDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string path_of(CheckpointId id) const;  // PATH/step-S.attempt-A
  std::string manifest_path(CheckpointId id) const;
  std::string attempt_path(Attempt attempt) const;

  // Creates the directory where missing and a file in it; kPermission or what the system says, in one line
  // that names it.
  Status check_writable() const;

  // All attempts, oldest first. kCorrupt names a file in PATH/attempts that is none of ours or cannot be
  // read.
  Expected<std::vector<AttemptRecord>> attempts() const;
  // kNotFound if it is not committed; kCorrupt if it cannot be used or is another checkpoint's.
  Expected<CheckpointManifest> read_manifest(CheckpointId id) const;
  // Every checkpoint with a usable manifest, by step and attempt. Not all of them count: see resumable().
  Expected<std::vector<CheckpointId>> committed() const;
  // Every step directory, committed or not, by step and attempt.
  Expected<std::vector<CheckpointId>> step_directories() const;

  // The checkpoints to which the chain of attempt files leads, newest first, starting from `from` (the newest
  // attempt by default): those that `from` wrote, then those of the attempt that it resumed from up to that
  // step, and so on. Entries with a damaged manifest are included, so that a caller can say what it passes
  // over.
  Expected<std::vector<CheckpointEntry>> candidates(std::optional<Attempt> from = {}) const;
  // Those of `ids` to which the chain from the newest attempt leads, the newest first, whether committed or
  // not.
  Expected<std::vector<CheckpointId>> counting(const std::vector<CheckpointId>& ids) const;
  // candidates() without the damaged ones.
  Expected<std::vector<CheckpointId>> resumable() const;
  // Committed checkpoints whose attempt has no attempt file: this directory was not written by Muster alone.
  Expected<std::vector<CheckpointId>> unrecorded() const;

  // Takes the directory over: claims the next number, which fences all older attempts, and then writes the
  // attempt's file, which says that it resumes from the newest of resumable(). Several callers at once get
  // different numbers. Without `take_over`, kFenced where the newest attempt's process is another one that
  // lives on this machine; of several such callers at once, one begins. As check_formats(), before it takes
  // anything.
  Expected<AttemptRecord> begin_attempt(const std::string& job, bool take_over = true) const;
  // The record of the attempt with the highest number; nothing if there is none, or it cannot be read.
  std::optional<AttemptRecord> newest() const;
  // The fence: kFenced if somebody has begun an attempt after `mine`; the message says which attempt of which
  // job on which host.
  Status check_newest(Attempt mine) const;

  // A pinned checkpoint is kept until it is unpinned, whoever wants to remove it. The pin is a file beside
  // the manifest. kNotFound if there is no such checkpoint.
  bool is_pinned(CheckpointId id) const;
  Status pin(CheckpointId id) const;
  Status unpin(CheckpointId id) const;

  // That it is committed is on the disk when this returns, also if its writer was killed before it had
  // synced.
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
