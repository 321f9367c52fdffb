// The messages between two agents of an attempt that copy each other's checkpoints in memory. This file also
// has the description of such a neighbour, which the launcher sends to the agent.
//
// docs/protocol.md describes when the messages are sent.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/wire/bytes.h"

namespace muster::wire {

// Another agent of the attempt, with which this agent exchanges copies of checkpoints in memory.
struct Neighbour {
  NodeId node;
  Incarnation incarnation{1};
  std::string address;    // this agent connects to this address
  std::int32_t port = 0;  // 0: the neighbour connects to this agent instead
  // This agent keeps copies for some of the neighbour's ranks: `kept_count` ranks, beginning with
  // `first_rank`.
  std::int32_t kept_count = 0;
  Rank first_rank;
  bool has_ours = false;  // the neighbour has checkpoints of this agent's ranks that this agent lacks
  std::string key;        // the key that both agents share, in hexadecimal digits
};

// The messages that two agents send to each other over their own connection. Either side can ask.
struct HeldSlot {
  Rank rank;
  std::uint64_t step = 0;
  Attempt attempt;
  std::uint64_t slot_bytes = 0;
};
struct SlotsHeld {  // first all complete slots; later those that ranks have just saved, or resume from
  std::vector<HeldSlot> slots;
};
struct SlotWanted {  // a SlotPart answers it; the answers come in the order of the questions
  HeldSlot slot;
  std::uint64_t number = 0;  // the answer has the same number
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
struct SlotPart {
  std::uint64_t number = 0;
  Bytes text;  // all wanted bytes; empty: the slot no longer exists
};

// The position of a message determines its frame type; the first type is kFirstToNeighbour. So append new
// messages at the end.
using ToNeighbour = std::variant<SlotsHeld, SlotWanted, SlotPart>;

}  // namespace muster::wire
