// The messages between agents of an attempt, which copy each other's checkpoints in memory, and the
// description of a neighbour that the launcher sends.
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

// Another agent of the attempt, with which this one exchanges copies of checkpoints in memory.
struct Neighbour {
  NodeId node;
  Incarnation incarnation{1};
  std::string address;    // this agent connects to it
  std::int32_t port = 0;  // 0: the neighbour connects to this agent
  // This agent keeps copies for that many of the neighbour's ranks, from `first_rank` on. 0: none.
  std::int32_t kept_count = 0;
  Rank first_rank;
  bool has_ours = false;  // the neighbour holds checkpoints that this agent's ranks need and lack
  std::string key;        // the pair's key, in hexadecimal digits; the launcher adds it to the message
};

// Between two agents, over their own connection. Either side may ask.
struct HeldSlot {
  Rank rank;
  std::uint64_t step = 0;
  Attempt attempt;
  std::uint64_t slot_bytes = 0;
};
struct SlotsHeld {  // at first all that are complete; later those that ranks have just saved or resume from
  std::vector<HeldSlot> slots;
};
struct SlotWanted {  // answered by a SlotPart, in order
  HeldSlot slot;
  std::uint64_t number = 0;  // the answer has the same
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
struct SlotPart {
  std::uint64_t number = 0;
  Bytes text;  // all the wanted bytes; empty: the slot no longer exists
};

// The order fixes the frame types, from 128. Append at the end.
using ToNeighbour = std::variant<SlotsHeld, SlotWanted, SlotPart>;

}  // namespace muster::wire
