// Decides which copies of other nodes' checkpoints in memory an agent fetches, and which it drops.
//
// - The nodes form a ring. For the preceding node the agent keeps the last step that it has from all of that
// node's ranks, and the step before: until the next save, no agent knows whether all ranks of the job have
// the last step.
// - For its own ranks without a checkpoint here the agent fetches a neighbour's copy.
// - The slots of its own ranks have priority over copies.
// Sizes and numbers only: memory_slots.h has the memory. Plain values; one thread at a time.
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
  // An attempt's ranks are about to start. `lacking`: this node's ranks that have no checkpoint here. `kept`:
  // the ranks of other nodes whose slots this agent copies.
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
  // Decides about a copy that a neighbour offers. `is_current`: its rank has just saved it, or resumes from
  // it. `room_bytes`: the part of the limit that the slots of own ranks leave free.
  Use use_of(const Copy& offered, bool is_current, std::uint64_t room_bytes) const;

  // Returns the copies to drop before `offered` is fetched to be kept. Its rank has saved this step, so all
  // ranks of the job have had the step before, and older ones can go.
  std::vector<Copy> make_way(const Copy& offered);
  // Call once the copy is complete and here.
  void add_fetched(const Copy& copy);
  // The slot of a rank that is no longer on this node is now a copy.
  void add_former_slot(const Copy& copy) { copies_.insert(copy); }
  void remove(const Copy& copy) { copies_.erase(copy); }
  // Limits the copies to this room, and returns those to drop.
  std::vector<Copy> shrink(std::uint64_t room_bytes);
  // Call once ranks of the current attempt have saved: after that only copies of the ranks in `kept` are
  // needed. Returns the other copies, to be dropped.
  std::vector<Copy> forget_others();
  const std::set<Copy>& copies() const { return copies_; }

 private:
  // Whether this agent has that step of all ranks whose copies it keeps.
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
