// What agents of an attempt say to each other, and are told of each other: they copy what ranks hold in
// memory.
//
// docs/protocol.md describes the conversation, messages.h how messages travel.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/bytes.h"

namespace muster::wire {

// Another agent of the attempt, with which this one copies what ranks hold in memory.
struct Neighbour {
  NodeId node;
  Incarnation incarnation{1};
  std::string address;    // where this agent calls it
  std::int32_t port = 0;  // 0: it calls this agent
  // Of its ranks, from `first_rank` on, this agent keeps copies. 0: of none.
  std::int32_t kept_count = 0;
  Rank first_rank;
  bool has_ours = false;  // it holds what this agent's ranks need, and have not here
  std::string key;        // that both have, in hexadecimal digits; the launcher adds it when it sends
};

// Between two agents, over a connection of their own. Either side may ask.
struct HeldSlot {
  Rank rank;
  std::uint64_t step = 0;
  Attempt attempt;
  std::uint64_t slot_bytes = 0;
};
struct SlotsHeld {  // all that are complete, first; then what ranks have just saved, or go on from
  std::vector<HeldSlot> slots;
};
struct SlotWanted {  // answered by a SlotPart, in order
  HeldSlot slot;
  std::uint64_t number = 0;  // the answer's too
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
struct SlotPart {
  std::uint64_t number = 0;
  Bytes text;  // as many as were wanted; none: the slot is not there any more
};

// The order fixes the frame types, from 128.
using ToNeighbour = std::variant<SlotsHeld, SlotWanted, SlotPart>;

}  // namespace muster::wire
