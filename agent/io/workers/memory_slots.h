// Memory that outlives the workers, for the newest checkpoints of this node's ranks: two slots a rank, so
// that a complete one is there while the next is written.
//
// A slot is a memfd of a fixed size; what lies in it is the runtime's business. All of them together take no
// more than a limit, and are gone with this process, however it ends. Without a limit there are none. One
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/ids.h"

namespace muster::agent {

class MemorySlots {
 public:
  void set_limit(std::uint64_t limit_bytes) { limit_bytes_ = limit_bytes; }
  // These are the node's ranks; slots of others are freed.
  void keep(Rank first, std::int32_t count);
  struct Answer {
    std::string text;      // a datagram (docs/protocol.md)
    std::vector<int> fds;  // that go with it; they stay this object's
  };
  // To a rank that asks for slots of this size, in place of those of another size, whose bytes are lost; 0:
  // it has what it had. All slots of all ranks, so that each can read what the others have saved; or why it
  // gets none: then all stays as it is.
  Answer answer(Rank rank, std::uint64_t slot_bytes);
  // Copies of all descriptors.
  std::vector<UniqueFd> copies() const;

 private:
  static constexpr std::size_t kEach = 2;         // of a rank
  static constexpr std::size_t kMostRanks = 126;  // a datagram takes 253 descriptors
  bool is_here(Rank rank) const;
  Status give(Rank rank, std::uint64_t slot_bytes);
  struct Slots {
    std::array<UniqueFd, kEach> fds;
    std::uint64_t slot_bytes = 0;
  };
  std::uint64_t limit_bytes_ = 0;
  Rank first_;
  std::int32_t count_ = 0;
  std::map<Rank, Slots> slots_;
};

}  // namespace muster::agent
