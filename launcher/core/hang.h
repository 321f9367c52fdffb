// A hang: which workers do not get on, what their stacks say, and who of them is the cause.
//
// One that is stopped holds up the others; else the one that is furthest behind; else the one that is
// somewhere else than most, by its section or by its stack; else the one that got stuck first. The others
// wait for it. Pure values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "launcher/core/main_stack.h"

namespace muster::launcher {

struct Stall {
  Rank rank;
  NodeId node;
  bool stopped = false;  // its process is, by a signal or the freezer
  std::string what;      // one clause: "has sent no heartbeat for 30 s"
  std::string section;
  std::int64_t step = -1;
  TimePoint since;  // when it last got on, by the launcher's clock
};

class Hang {
 public:
  // The newest word on a rank replaces older ones.
  void add(Stall stall);
  // The rank got on to `step`: what was said before is over.
  void moved(Rank rank, std::int64_t step);
  void add_stacks(Rank rank, NodeId node, std::string_view text) {
    stacks_[rank] = main_stack_of(text);
    nodes_.insert_or_assign(rank, node);
  }
  std::size_t stacks_count() const { return stacks_.size(); }
  const std::vector<Stall>& stalls() const { return stalls_; }

  // One of stalls(), which must not be empty; or a rank that does not come to where the others wait.
  Stall culprit() const;
  // Where the stacks say that the ranks are: more of the culprit's, a line of the others', ranks with the
  // same line together.
  std::vector<std::string> evidence() const;

 private:
  std::optional<Stall> elsewhere() const;

  std::vector<Stall> stalls_;  // one a rank
  std::map<Rank, MainStack> stacks_;
  std::map<Rank, NodeId> nodes_;  // of those in stacks_
};

}  // namespace muster::launcher
