// Decides which copies of other nodes' checkpoints in memory an agent fetches, and which it drops.
//
// - The nodes form a ring. For the preceding node the agent keeps the last step that it has from all of that
//   node's ranks, and the step before. It drops the older of the two only at the next save: until then no
//   agent knows whether all ranks of the job have the newer one.
// - If a rank of this node has no checkpoint here, the agent fetches a neighbour's copy of it.
// - The slots of its own ranks have priority over copies.
// This file handles only sizes and numbers; memory_slots.h has the memory. One thread at a time.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/rank_range.h"

namespace muster::agent {

// A complete slot.
struct Copy {
  Rank rank;
  CheckpointId id;
  std::uint64_t slot_bytes = 0;
  auto operator<=>(const Copy&) const = default;
};

class CopyKeeping {
 public:
  // Call before an attempt's ranks start. `lacking`: this node's ranks that have no checkpoint here. `kept`:
  // the ranks of the preceding node, whose slots this agent copies.
  void begin(Attempt attempt, std::set<Rank> lacking, RankRange kept);
  // Stops fetching for ranks of this node, unless a later attempt has begun.
  void stop_fetching(Attempt attempt) {
    if (attempt == attempt_) lacking_.clear();
  }

  enum class Use {
    kNone,
    kOwn,     // becomes a slot of this node's rank
    kKeep,    // is kept for its node
    kNoRoom,  // would be kept, but does not fit
  };
  // Decides what to do with a copy that a neighbour offers. `is_current`: its rank has just saved it, or
  // resumes from it. `room_bytes`: how much the slots of this node's ranks leave of the memory limit.
  Use use_of(const Copy& offered, bool is_current, std::uint64_t room_bytes) const;

  // Returns the copies to drop before `offered` is fetched, and forgets them. Call if use_of() is kKeep.
  std::vector<Copy> make_way(const Copy& offered);
  // Call once the copy has been received completely.
  void add_fetched(const Copy& copy);
  // Call when a rank has left this node: its slot becomes a copy.
  void add_former_slot(const Copy& copy) { copies_.insert(copy); }
  void remove(const Copy& copy) { copies_.erase(copy); }
  // Forgets copies until the others fit into this room, and returns the forgotten ones, to be dropped.
  std::vector<Copy> shrink(std::uint64_t room_bytes);
  // Call once ranks of the current attempt have saved: from then on, only copies of the ranks in `kept` are
  // needed. Forgets and returns all other copies, to be dropped.
  std::vector<Copy> forget_others();
  const std::set<Copy>& copies() const { return copies_; }

 private:
  // Returns whether this agent has a copy of checkpoint `id` for every rank in `kept_`.
  bool is_whole(CheckpointId id) const;
  bool gives_way(const Copy& copy, CheckpointId to) const;
  std::vector<Copy> take_out(const std::vector<Copy>& which);

  Attempt attempt_;
  std::set<Rank> lacking_;
  RankRange kept_;
  std::set<Copy> copies_;
  std::optional<CheckpointId> whole_;  // the last step that is_whole()
};

}  // namespace muster::agent
