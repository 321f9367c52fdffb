// Checks that an agent that sends Hello is the one that was started: the same node, incarnation and version
// of Muster. Pure.
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

// Errors: kInvalidArgument for another version (the message says which side is older, and what to do),
// kFenced for an incarnation that was replaced, kCorrupt for another node.
Status check_hello(const wire::Hello& hello, const ExpectedAgent& expected);

}  // namespace muster::launcher
