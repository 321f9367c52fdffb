// Checkpoints in the memory of this node's agent, which outlives the workers: a rank saves there, and the
// ranks of the next attempt restore from there.
//
// Use a MemoryTier on the training thread. A background thread hashes what was copied. The ranks of each node
// together hold all tensors that they have, even if another node holds the same tensors.
#pragma once

#include <array>
#include <future>
#include <memory>
#include <muster/comm/job.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/checkpoint/memory_slot.h"
#include "runtime/checkpoint/background.h"
#include "runtime/checkpoint/meeting.h"
#include "runtime/checkpoint/rank_file.h"
#include "runtime/checkpoint/save_agreement.h"
#include "runtime/checkpoint/staging.h"
#include "runtime/rank/reports.h"

namespace muster {

// Invariants:
// - Each rank has two slots and writes into the older one. So the other slot is still complete if the rank is
//   killed meanwhile.
// - A slot holds the rank's file as it would be on the disk, then what the manifest would say of the file.
//   The last page is a SlotHeader, which says which attempt and rank wrote the slot. Its `state` is set to
//   kComplete after everything else has been written.
// - `next_` is the slot that is written next. It changes only when a save or a restore has completed.
// - After a save has failed on any rank, the next save sets `is_off_` on all ranks, and no rank saves again
//   in this attempt.
// - While `under_way_` is set, the background thread owns that Task, and the memory of the slots that the
//   Task writes or maps. The training thread only fills this memory through a Staging, which has a lock.
//   Before anything else, it calls settle().
class MemoryTier {
 public:
  struct Setting {
    Attempt attempt;
    std::string directory;  // the checkpoint directory, where attempts are counted
    bool check_replicas = true;
    std::chrono::milliseconds timeout{};
  };
  // All ranks must construct their Meetings and MemoryTiers in the same order: a MemoryTier has a Meeting.
  MemoryTier(const Job& job, Setting setting);
  ~MemoryTier();
  MemoryTier(const MemoryTier&) = delete;
  MemoryTier& operator=(const MemoryTier&) = delete;

  // Gets the memory for the first save, so that training does not wait for it later. Every rank calls it, as
  // it does save().
  void prepare(const Expected<SavedState>& state, const std::string& meeting_name, std::uint64_t step);
  // Every rank calls it with its state. Use each `meeting_name` only once. If a rank fails, all ranks stop
  // saving in this attempt, and rank 0 prints why. Checkpoints that were complete before stay.
  void save(const Expected<SavedState>& state, const std::string& meeting_name, std::uint64_t step);

  // Returns a list of this rank's complete checkpoints, for rank 0 to choose from. The list is valid until
  // the next save.
  std::string tell_held();
  // Returns the checkpoints that are in all of the ranks' lists: the newest attempt first, and within an
  // attempt the newest step first.
  static std::vector<CheckpointId> held_by_all(const std::vector<std::string>& told);
  // Returns a directory that has this node's part of the checkpoint, and the manifest of that part.
  Expected<std::pair<std::string, CheckpointManifest>> find(CheckpointId id) const;
  // Call it when the checkpoint has been restored. The next save then overwrites this rank's other slot.
  void keep(CheckpointId id);
  // Call it when the checkpoint is damaged. Marks this rank's slot, so that no attempt finds it again.
  void discard(CheckpointId id);

 private:
  struct Found;
  struct Slot {
    UniqueFd fd;
    std::uint64_t size_bytes = 0;
    StagingMemory memory;  // mapped by prepare() or the first save
  };
  // A task for the background thread. Only that thread writes `outcome`. Others read it once `done` is ready.
  struct Task {
    const bool is_save;  // false: the task maps the memory
    Status outcome = {};
    std::future<void> done = {};
  };
  std::optional<RankFile> agree(const Expected<SavedState>& state, const std::string& meeting_name,
                                std::uint64_t step);
  Status ask_for_slots(const RankFileLayout& layout);
  Status map(Slot& slot) const;
  Status write(RankFileLayout& layout, Staging& staging, Slot& slot, std::uint64_t step) const;
  void settle();
  Status look();
  std::optional<std::size_t> slot_with(CheckpointId id) const;
  SlotHeader header_of(std::uint64_t step, std::uint64_t file_bytes, std::string_view contents) const;

  Job job_;
  const Setting setting_;
  const Digest128 directory_;
  Meeting meeting_;
  SaveAgreement agreement_;
  bool has_looked_ = false;
  bool is_off_ = false;
  Status usable_;  // an error: why this rank saves no more
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;
  std::vector<Found> found_;  // complete slots of all ranks of this node; empty after a save
  Background writer_{"muster-memory", 1, /*yielding=*/true};
  std::unique_ptr<Task> under_way_;
};

}  // namespace muster
