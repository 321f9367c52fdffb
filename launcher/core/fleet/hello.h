// Checks that an agent that sends Hello is the one that was started. Its node, incarnation and version of
// Muster must be the same. Pure.
//
// The caller decides what follows from a mismatch. Frames of another protocol version are refused earlier
// (frame.h).
#pragma once

#include <string_view>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/wire/messages.h"

namespace muster::launcher {

struct ExpectedAgent {
  AgentId agent;
  std::string_view version;  // this program's
};

// Returns kInvalidArgument if the agent has another version. The message says which side is older, and what
// to do. Returns kFenced if the incarnation was replaced, and kCorrupt if the agent is one of another node.
Status check_hello(const wire::Hello& hello, const ExpectedAgent& expected);

}  // namespace muster::launcher
