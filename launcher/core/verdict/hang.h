// A hang: which workers do not get on, what their stacks say, and who of them is the cause.
//
// A worker that is stopped holds up the others, and is the cause. Else the cause is among those furthest
// behind: the one that is somewhere else than most, by its section or by its stack, or that alone does not
// wait for others. Who got stuck first says nothing: ranks that train together stop within milliseconds.
// Where several workers may be the cause, none is singled out. Only ranks that train in one group are
// compared; groups that hang beside each other may have a cause each, or one waits for another's. Pure
// values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "launcher/core/verdict/main_stack.h"
#include "launcher/core/verdict/training_groups.h"

namespace muster::launcher {

struct Stall {
  Rank rank;
  NodeId node;
  bool stopped = false;  // the rank's process is stopped, by a signal or the freezer
  bool hard = false;     // else it may get on yet
  std::string what;      // one clause: "has sent no heartbeat for 30 s"
  std::string section;
  std::int64_t step = -1;
  TimePoint since;  // when it last got on, by the launcher's clock
};

class Hang {
 public:
  // The newest word on a rank replaces older ones, until a hard stall is told: of a later one only that the
  // rank is stopped.
  void add(Stall stall);
  // The rank got on to `step`: what was said before is over.
  void moved(Rank rank, std::int64_t step);
  void add_stacks(Rank rank, NodeId node, std::string_view text) {
    stacks_[rank] = main_stack_of(text);
    nodes_.insert_or_assign(rank, node);
  }
  std::size_t stacks_count() const { return stacks_.size(); }
  // Whether another rank that may train with it has stalled, or has told where it is.
  bool knows_others_than(Rank rank, const TrainingGroups& groups = {}) const;
  const std::vector<Stall>& stalls() const { return stalls_; }

  // The ranks that may be the cause, in the order in which they got stuck: some of stalls(), which must not
  // be empty, or ranks that do not come to where the others wait. If there is only one, it is the cause.
  std::vector<Stall> suspects(const TrainingGroups& groups = {}) const;
  // Lines that say where the ranks are, by their stacks: several for the culprit, one for each other rank;
  // ranks with the same line share it. Of ranks that train apart from the suspects there are none.
  std::vector<std::string> evidence(const TrainingGroups& groups = {}) const;
  // Whether its stack says that it waits for other ranks.
  bool is_known_to_wait(Rank rank) const;
  // The line where all of these are, if they are at one place; else "".
  std::string place_of(const std::vector<Stall>& ranks) const;

  // What a journal keeps of it (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(stalls_, stacks_, nodes_);
  }
  // Whether these fields, which were read, can be its own.
  bool restored() const {
    return std::ranges::all_of(stacks_, [this](const auto& each) { return nodes_.contains(each.first); });
  }

 private:
  using Pool = std::vector<const Stall*>;
  Hang within(const std::string& group, const TrainingGroups& groups) const;
  std::vector<Stall> suspects_of_one_training() const;
  Pool those(const std::function<bool(const Stall&)>& predicate) const;
  void keep(Pool& pool, const std::function<bool(const Stall&)>& predicate) const;
  std::vector<Rank> awaited() const;
  std::vector<Stall> absent_where_others_wait(const std::vector<Rank>& elsewhere) const;

  std::vector<Stall> stalls_;  // one a rank
  std::map<Rank, MainStack> stacks_;
  std::map<Rank, NodeId> nodes_;  // of those in stacks_
};

}  // namespace muster::launcher
