// Keeps checkpoints in the memory of this node's agent. The agent still runs when the workers have ended. So
// a rank can save there, and the ranks of the next attempt can restore from there.
//
// Use a MemoryTier on the training thread. A background thread hashes the copied data. The ranks of a node
// together save all tensors that they have, even if the ranks of another node save the same tensors.
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
// - Each rank has two slots. It always writes into the older one. So if the rank is killed while it writes,
//   the other slot is still complete.
// - A slot begins with the rank's file, as it would be on the disk. Then comes what the manifest would say of
//   this file. The last page of the slot is a SlotHeader, which says which attempt and which rank wrote the
//   slot. Its `state` is set to kComplete after everything else has been written.
// - `next_` is the slot that the next save writes. It changes only when a save or a restore has completed.
// - If a save has failed on any rank, the next save sets `is_off_` on all ranks. Then no rank saves again in
//   this attempt.
// - While `under_way_` is set, the background thread owns that Task. It also owns the memory of the slots
//   that the Task writes or maps. The training thread only fills this memory, through a Staging, which has a
//   lock. For anything else, the training thread first calls settle(), which waits until the Task is done.
class MemoryTier {
 public:
  struct Setting {
    Attempt attempt;
    std::string directory;  // the checkpoint directory, where attempts are counted
    bool check_replicas = true;
    std::chrono::milliseconds timeout{};
  };
  // A MemoryTier has a Meeting. So all ranks must construct their Meetings and MemoryTiers in the same order.
  MemoryTier(const Job& job, Setting setting);
  ~MemoryTier();
  MemoryTier(const MemoryTier&) = delete;
  MemoryTier& operator=(const MemoryTier&) = delete;

  // Every rank calls prepare() before the first save, with the same arguments as save(). It already allocates
  // the memory for the first save, so that the first save itself is shorter.
  void prepare(const Expected<SavedState>& state, const std::string& meeting_name, std::uint64_t step);
  // Every rank calls it with its state. Each `meeting_name` can be used only once. If a rank fails, no rank
  // saves to memory any more in this attempt, and rank 0 prints the reason. Checkpoints that were already
  // complete are kept.
  void save(const Expected<SavedState>& state, const std::string& meeting_name, std::uint64_t step);

  // Returns a list of all complete checkpoints of this rank. Rank 0 needs the lists of all ranks to choose a
  // checkpoint. The list is valid until the next save.
  std::string tell_held();
  // `told` has the list that tell_held() returned on each rank. Returns the checkpoints that are in all of
  // these lists. The checkpoints of the newest attempt come first. Within an attempt, the newest step comes
  // first.
  static std::vector<CheckpointId> held_by_all(const std::vector<std::string>& told);
  // Finds a checkpoint in this node's memory. Returns a directory that has the files of this node's ranks,
  // and a manifest of these files.
  Expected<std::pair<std::string, CheckpointManifest>> find(CheckpointId id) const;
  // Call it when the checkpoint has been restored. The next save then overwrites this rank's other slot.
  void keep(CheckpointId id);
  // Call it when the checkpoint is damaged. It marks the slot of this rank, so that no attempt finds the
  // checkpoint again.
  void discard(CheckpointId id);

 private:
  struct Found;
  struct Slot {
    UniqueFd fd;
    std::uint64_t size_bytes = 0;
    StagingMemory memory;  // mapped by prepare() or the first save
  };
  // A task for the background thread. Only this thread writes `outcome`. When `done` is ready, the other
  // threads can read it.
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
