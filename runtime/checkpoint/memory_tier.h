// Checkpoints in the memory of this node's agent, which outlives the workers: what a rank saves there, and
// what the next attempt's ranks find.
//
// Each rank has two slots, and writes the older one, so that a complete one is there whenever it is killed. A
// slot has the bytes of the rank's file as they would lie on the disk, then what the manifest would say of
// them, and in its last page who wrote what, and whether it is complete. The ranks of a node write all that
// they have among themselves. For the training thread; a thread of its own hashes.
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

class MemoryTier {
 public:
  struct Setting {
    Attempt attempt;
    std::string directory;  // of the checkpoints: attempts are counted in it
    bool check_replicas = true;
    std::chrono::milliseconds timeout{};
  };
  // All ranks at the same time, as they make meetings.
  MemoryTier(const Job& job, Setting setting);
  ~MemoryTier();
  MemoryTier(const MemoryTier&) = delete;
  MemoryTier& operator=(const MemoryTier&) = delete;

  // Before the first save, as that, but nothing is saved: the memory is got, so that training does not wait
  // for it then.
  void prepare(const Expected<SavedState>& state, const std::string& meeting_name, std::uint64_t step);
  // Every rank calls it with its state. `meeting_name` is that of no other save. What fails on any rank ends
  // the saves of this attempt, on all ranks, and rank 0 says why; what was complete before stays.
  void save(const Expected<SavedState>& state, const std::string& meeting_name, std::uint64_t step);

  // This rank's complete checkpoints, for another rank to choose from, until the next save.
  std::string tell_held();
  // What all ranks hold, from what each has told: the newest attempt's first, of each the newest step first.
  static std::vector<CheckpointId> held_by_all(const std::vector<std::string>& told);
  // Where this node's ranks hold it: a directory, and what the manifest would be.
  Expected<std::pair<std::string, CheckpointManifest>> find(CheckpointId id) const;
  // It has been restored: of this rank's slots the other one is overwritten first.
  void keep(CheckpointId id);
  // It is damaged: no attempt finds this rank's part again.
  void discard(CheckpointId id);

 private:
  struct Found;
  struct Slot {
    UniqueFd fd;
    std::uint64_t size_bytes = 0;
    StagingMemory memory;  // from the first save on
  };
  std::optional<RankFile> agree(const Expected<SavedState>& state, const std::string& meeting_name,
                                std::uint64_t step);
  Status ask_for_slots(const RankFile& image);
  Status map(Slot& slot) const;
  Status write(RankFile& image, Staging& staging, Slot& slot, std::uint64_t step) const;
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
  Status usable_;  // why this rank saves no more
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;      // the slot that is written next
  std::vector<Found> found_;  // of all ranks of this node, until the next save
  Background writer_{"muster-memory", 1, /*yielding=*/true};
  Status written_;        // the writer's while it runs
  bool is_save_ = false;  // what the writer does
  std::future<void> under_way_;
};

}  // namespace muster
