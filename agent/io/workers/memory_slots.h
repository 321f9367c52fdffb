// Memory that outlives the workers, for the newest checkpoints of this node's ranks: two slots per rank, so
// that one is complete while the other is written; and copies of the slots of other nodes' ranks.
//
// A slot is a memfd of a fixed size. The runtime owns its content, except the header, which says which step
// it holds (memory_slot.h). All slots and copies together stay within a limit; copies give way to slots. All
// of them end with this process, however it ends. Without a limit there are no slots. Safe from any thread.
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
  // An attempt begins with these ranks on this node: slots of other ranks become copies, and copies of these
  // ranks' slots become slots.
  void keep(Rank first, std::int32_t count);
  struct Answer {
    std::string text;      // a datagram (docs/protocol.md)
    std::vector<int> fds;  // attached to it; still owned by this object
  };
  // The answer to a rank whose slots are still being fetched from another agent.
  static Answer later();
  // Answers a rank that asks for slots of this size. They replace its slots of another size, whose bytes are
  // lost; `slot_bytes` 0: the rank keeps its slots. The answer contains all slots of this node's ranks, so
  // that each rank can read what the others have saved. A refusal contains the reason, and changes nothing.
  Answer answer(Rank rank, std::uint64_t slot_bytes);
  // New descriptors for the slots of this node's ranks; the caller owns them.
  std::vector<UniqueFd> own_slots() const;

  // All complete slots and copies: of this node's ranks, and of others.
  std::vector<Copy> held() const;
  // A new descriptor; empty if the copy no longer exists.
  UniqueFd open(const Copy& copy) const;
  // Neighbours begin to list their slots; `kept`: the ranks whose copies this agent keeps.
  void begin_copying(Attempt attempt, RankRange kept);
  // The same as CopyKeeping::stop_fetching().
  void stop_fetching(Attempt attempt);
  CopyKeeping::Use use_of(const Copy& offered, bool is_current) const;
  // An empty slot to receive this copy.
  Expected<UniqueFd> make_room(const Copy& offered);
  // Takes over the copy, which is complete in `fd`. Returns false if there is no more room for the copy.
  bool take(const Copy& copy, UniqueFd fd);
  // Call once this node's ranks have saved in the current attempt. Drops copies that are no longer needed.
  void forget_others();

 private:
  static constexpr std::size_t kEach = 2;         // slots per rank
  static constexpr std::size_t kMostRanks = 126;  // a datagram takes 253 descriptors
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
  std::map<Rank, Slots> slots_;  // of own ranks
  CopyKeeping keeping_;
  std::map<Copy, UniqueFd> copies_;  // those of keeping_
};

}  // namespace muster::agent
