// Whether an agent that says Hello is the one that was started: this node's, this incarnation, of the same
// version of Muster. Pure.
//
// What a mismatch leads to is decided by the caller. Frames of another protocol version are refused earlier
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

// kInvalidArgument: another version; the message says which side is older and what to do. kFenced: another
// incarnation, whose place is taken. kCorrupt: another node.
Status check_hello(const wire::Hello& hello, const ExpectedAgent& expected);

}  // namespace muster::launcher
