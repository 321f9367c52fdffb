// Memory that outlives the workers, for the newest checkpoints of this node's ranks: two slots a rank, so
// that a complete one is there while the next is written; and copies of slots that other nodes' ranks have.
//
// A slot is a memfd of a fixed size; what lies in it is the runtime's business, but for the header that says
// of which step it is (memory_slot.h). All of them together take no more than a limit, copies giving way, and
// are gone with this process, however it ends. Without a limit there are none. Safe from any thread.
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
  // An attempt begins, in which these are the node's ranks: slots of others become copies, and copies of
  // these become slots.
  void keep(Rank first, std::int32_t count);
  struct Answer {
    std::string text;      // a datagram (docs/protocol.md)
    std::vector<int> fds;  // that go with it; they stay this object's
  };
  // To a rank whose slots another agent has, and sends.
  static Answer later();
  // To a rank that asks for slots of this size, in place of those of another size, whose bytes are lost; 0:
  // it has what it had. All slots of this node's ranks, so that each can read what the others have saved; or
  // why it gets none: then all stays as it is.
  Answer answer(Rank rank, std::uint64_t slot_bytes);
  // The slots of this node's ranks, as descriptors of the caller's.
  std::vector<UniqueFd> own_slots() const;

  // What is complete here: of this node's ranks, and copies.
  std::vector<Copy> held() const;
  // A copy of the descriptor; none if it is not there any more.
  UniqueFd open(const Copy& copy) const;
  // Neighbours begin to tell what they have; `kept`: of these ranks copies are kept.
  void begin_copying(Attempt attempt, RankRange kept);
  // Of this attempt.
  void stop_fetching(Attempt attempt);
  CopyKeeping::Use use_of(const Copy& offered, bool is_current) const;
  // An empty slot for one that is wanted.
  Expected<UniqueFd> make_room(const Copy& offered);
  // It is complete in `fd`. False: there is no room for it any more.
  bool take(const Copy& copy, UniqueFd fd);
  // This node's ranks have saved in the attempt at hand.
  void forget_others();

 private:
  static constexpr std::size_t kEach = 2;         // of a rank
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
