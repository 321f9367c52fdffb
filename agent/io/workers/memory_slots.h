// Owns memory for checkpoints that outlives the workers. Each rank of this node has two slots, so that one is
// complete while the other is being written. There are also copies of slots of other nodes' ranks.
//
// A slot is a memfd of a fixed size. The runtime writes its content. This class reads only the header, which
// says which step the slot has (memory_slot.h). There is a limit for all slots and copies together. If slots
// need the room, copies are dropped. If the limit is 0, there are no slots. The memory is freed when this
// process ends. Safe from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "agent/core/memory/copy_keeping.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/ids.h"

namespace muster::agent {

class MemorySlots {
 public:
  void set_limit(std::uint64_t limit_bytes);
  // Call this when an attempt begins. In this attempt the node has `count` ranks, beginning with `first`. If
  // there are copies of their slots, these copies become slots. The slots of all other ranks become copies.
  void keep(Rank first, std::int32_t count);
  struct Answer {
    std::string text;      // a datagram (docs/protocol.md)
    std::vector<int> fds;  // to be sent with the datagram; MemorySlots still owns them
  };
  // Returns the answer to a rank whose slots are still being fetched from another agent.
  static Answer later();
  // Answers a rank that asks for slots of this size. If the rank has slots of another size, it gets new
  // slots, and the content of the old ones is lost. If `slot_bytes` is 0, the rank keeps its slots. The
  // answer contains all slots of this node's ranks, so that each rank can read what the others have saved. If
  // the request is refused, the answer contains the reason, and nothing changes.
  Answer answer(Rank rank, std::uint64_t slot_bytes);
  // Returns new descriptors for the slots of this node's ranks. The caller owns them.
  std::vector<UniqueFd> own_slots() const;

  // Returns all complete slots and all copies.
  std::vector<Copy> held() const;
  // Returns a new descriptor for this slot or copy. It is empty if the slot or copy no longer exists.
  UniqueFd open(const Copy& copy) const;
  // Call this before neighbours send the lists of their slots. `kept` has the ranks of other nodes; this
  // agent keeps copies of their slots.
  void begin_copying(Attempt attempt, RankRange kept);
  // Does the same as CopyKeeping::stop_fetching().
  void stop_fetching(Attempt attempt);
  CopyKeeping::Use use_of(const Copy& offered, bool is_current) const;
  // Drops the copies that the new one replaces. Returns an empty slot for the new one.
  Expected<UniqueFd> make_room(const Copy& offered);
  // Takes over a copy whose content is complete in `fd`. Returns false, and keeps nothing, if the copy is no
  // longer needed or there is no room for it.
  bool take(const Copy& copy, UniqueFd fd);
  // Call this when ranks of this node have saved in the current attempt. It drops the copies that nobody
  // needs any more.
  void forget_others();

 private:
  static constexpr std::size_t kEach = 2;         // slots per rank
  static constexpr std::size_t kMostRanks = 126;  // a datagram can have 253 descriptors
  struct Slots {
    std::array<UniqueFd, kEach> fds;
    std::uint64_t slot_bytes = 0;
  };
  Status give(Rank rank, std::uint64_t slot_bytes);
  bool become_slot(const Copy& copy, UniqueFd fd);
  std::uint64_t room_for_copies() const;
  void drop(const std::vector<Copy>& which);

  mutable std::mutex mutex_;
  std::uint64_t limit_bytes_ = 0;
  RankRange own_;
  std::map<Rank, Slots> slots_;  // of this node's ranks
  CopyKeeping keeping_;
  std::map<Copy, UniqueFd> copies_;  // the copies that `keeping_` has
};

}  // namespace muster::agent
