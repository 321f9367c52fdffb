// Decides which copies of checkpoints in memory of other nodes an agent fetches, and which ones it drops.
//
// - The nodes form a ring, and each agent keeps copies for the preceding node. It keeps the last step for
//   which it has the copies of all of that node's ranks, and the step before. It drops the older step only at
//   the next save. Until then no agent knows whether all ranks of the job have the newer step.
// - If a rank of this node has no checkpoint here, the agent fetches a copy from a neighbour that has one.
// - The slots of the agent's own ranks have priority over copies.
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
  // Call this before the ranks of an attempt start. `lacking` has those ranks of this node that have no
  // checkpoint here. `kept` has the ranks of the preceding node. This agent copies their slots.
  void begin(Attempt attempt, std::set<Rank> lacking, RankRange kept);
  // Stops fetching copies for ranks of this node. If a later attempt has begun, this does nothing.
  void stop_fetching(Attempt attempt) {
    if (attempt == attempt_) lacking_.clear();
  }

  enum class Use {
    kNone,
    kOwn,     // becomes a slot of this node's rank
    kKeep,    // is kept for its node
    kNoRoom,  // would be kept, but does not fit
  };
  // Decides what to do with a copy that a neighbour offers. `is_current` says that the copy's rank has just
  // saved it or resumes from it. `room_bytes` is the part of the memory limit that the slots of this node's
  // ranks leave free.
  Use use_of(const Copy& offered, bool is_current, std::uint64_t room_bytes) const;

  // Returns the copies that have to be dropped before `offered` is fetched, and forgets them. Call this if
  // use_of() is kKeep.
  std::vector<Copy> make_way(const Copy& offered);
  // Call this when the copy has been received completely.
  void add_fetched(const Copy& copy);
  // Call this when a rank has left this node. Its slot then is a copy.
  void add_former_slot(const Copy& copy) { copies_.insert(copy); }
  void remove(const Copy& copy) { copies_.erase(copy); }
  // Forgets copies until the other copies fit into `room_bytes`. Returns the forgotten copies, and the caller
  // drops them.
  std::vector<Copy> shrink(std::uint64_t room_bytes);
  // Call this when ranks of the current attempt have saved. From then on only copies of the ranks in `kept`
  // are needed. Forgets all other copies, and returns them; the caller drops them.
  std::vector<Copy> forget_others();
  const std::set<Copy>& copies() const { return copies_; }

 private:
  // Returns whether this agent has copies of checkpoint `id` of all ranks in `kept_`.
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
