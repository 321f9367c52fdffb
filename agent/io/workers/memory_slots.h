// Owns memory that outlives the workers, for checkpoints. Each rank of this node has two slots, so that one
// is complete while the other is written. There are also copies of slots of other nodes' ranks.
//
// A slot is a memfd of a fixed size. The runtime writes its content. Here only the header is read, which says
// which step the slot has (memory_slot.h). All slots and copies together stay within a limit; copies are
// dropped if slots need the room. With a limit of 0 there are no slots. The memory is freed when this process
// ends. Safe from any thread.
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
  // Call when an attempt begins with these ranks on this node. Slots of other ranks become copies, and copies
  // of these ranks' slots become slots.
  void keep(Rank first, std::int32_t count);
  struct Answer {
    std::string text;      // a datagram (docs/protocol.md)
    std::vector<int> fds;  // to be sent with the datagram; MemorySlots still owns them
  };
  // Returns the answer to a rank whose slots are still being fetched from another agent.
  static Answer later();
  // Answers a rank that asks for slots of this size. If the rank has slots of another size, new slots replace
  // them, and their content is lost. `slot_bytes` 0: the rank keeps its slots. The answer contains all slots
  // of this node's ranks, so that each rank can read what other ranks have saved. A refusal contains the
  // reason, and changes nothing.
  Answer answer(Rank rank, std::uint64_t slot_bytes);
  // Returns new descriptors for the slots of this node's ranks. The caller owns them.
  std::vector<UniqueFd> own_slots() const;

  // Returns all complete slots and all copies.
  std::vector<Copy> held() const;
  // Returns a new descriptor for this slot or copy; empty if it no longer exists.
  UniqueFd open(const Copy& copy) const;
  // Call before neighbours list their slots. `kept`: the ranks of other nodes whose slots this agent copies.
  void begin_copying(Attempt attempt, RankRange kept);
  // As CopyKeeping::stop_fetching().
  void stop_fetching(Attempt attempt);
  CopyKeeping::Use use_of(const Copy& offered, bool is_current) const;
  // Drops the copies that this one replaces, and returns an empty slot for it.
  Expected<UniqueFd> make_room(const Copy& offered);
  // Takes over the copy, which is complete in `fd`. Returns false if the copy is not needed any more, or has
  // no room.
  bool take(const Copy& copy, UniqueFd fd);
  // Call once this node's ranks have saved in the current attempt. Drops copies that are no longer needed.
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
