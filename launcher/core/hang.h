// A hang: which workers do not get on, what their stacks say, and who of them is the cause.
//
// One that is stopped holds up the others; else the one that is furthest behind; else the one that is
// somewhere else than most; else the one that got stuck first. The others wait for it. Pure values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"

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
  void add_stacks(Rank rank, std::string text) { stacks_[rank] = std::move(text); }
  std::size_t stacks_count() const { return stacks_.size(); }
  const std::vector<Stall>& stalls() const { return stalls_; }

  // One of stalls(), which must not be empty.
  const Stall& culprit() const;
  // What the stacks begin with: more of the culprit's, a line of the others', ranks with the same line
  // together.
  std::vector<std::string> evidence() const;

 private:
  std::vector<Stall> stalls_;  // one a rank
  std::map<Rank, std::string> stacks_;
};

}  // namespace muster::launcher
