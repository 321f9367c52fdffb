// Whether an agent that greets is the one that was started: same program, same start of it. Pure.
//
// What follows is decided by who asks. A frame of another protocol does not come as far as this (frame.h).
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

// kInvalidArgument: another version, in a line that says which side is older and what to do. kFenced: an
// earlier start of that agent, whose place is taken: it is closed, and nothing else follows. kCorrupt:
// another node.
Status check_hello(const wire::Hello& hello, const ExpectedAgent& expected);

}  // namespace muster::launcher
