// Which copies of what other nodes' ranks hold in memory an agent takes, and which it lets go.
//
// Of the node before it in the ring it keeps the last step of which it has got all ranks, and the one before:
// until the next is saved nobody knows that all ranks of the job have the last. Of ranks that are its own
// now, and of which it has nothing, it takes what a neighbour has. A copy gives way to the slots of its own
// ranks. Sizes and numbers only: the memory is elsewhere (memory_slots.h). Plain values; one thread at a
// time.
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

// A slot that is complete.
struct Copy {
  Rank rank;
  CheckpointId id;
  std::uint64_t slot_bytes = 0;
  auto operator<=>(const Copy&) const = default;
};

class CopyKeeping {
 public:
  // An attempt's ranks are about to start. `lacking`: those of this node of which nothing is here. `kept`:
  // the ranks of whose slots this agent keeps copies.
  void begin(Attempt attempt, std::set<Rank> lacking, RankRange kept);
  // Nothing is got for ranks of this node any more, unless a later attempt has begun.
  void stop_fetching(Attempt attempt) {
    if (attempt == attempt_) lacking_.clear();
  }

  enum class Use {
    kNone,
    kOwn,     // it will be a slot of this node's rank
    kKeep,    // it will be kept for its node
    kNoRoom,  // it would be kept
  };
  // What a neighbour has said that it has. `is_current`: its rank has just saved it, or goes on from there.
  // `room_bytes`: what the slots of own ranks leave of the limit.
  Use use_of(const Copy& offered, bool is_current, std::uint64_t room_bytes) const;

  // What goes for one that will be kept, before it comes: a rank that has saved it knows that all ranks of
  // the job had the one before.
  std::vector<Copy> make_way(const Copy& offered);
  // It is complete and here.
  void add_fetched(const Copy& copy);
  // It was a slot of a rank that is not of this node any more.
  void add_former_slot(const Copy& copy) { copies_.insert(copy); }
  void remove(const Copy& copy) { copies_.erase(copy); }
  // The copies have no more room than that.
  std::vector<Copy> shrink(std::uint64_t room_bytes);
  // Ranks of the attempt at hand have saved: none asks for what earlier ones had, but where a node's copies
  // are kept here.
  std::vector<Copy> forget_others();
  const std::set<Copy>& copies() const { return copies_; }

 private:
  // Whether all ranks whose copies are kept here have it.
  bool is_whole(CheckpointId id) const;
  bool gives_way(const Copy& copy, CheckpointId to) const;
  std::vector<Copy> take_out(const std::vector<Copy>& which);

  Attempt attempt_;
  std::set<Rank> lacking_;
  RankRange kept_;
  std::set<Copy> copies_;
  std::optional<CheckpointId> whole_;  // the last that became so
};

}  // namespace muster::agent
