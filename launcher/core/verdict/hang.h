// A hang: which workers are stuck, what their stacks show, and which worker is the cause.
//
// If a worker was stopped (by a signal or the freezer), it is the cause. Otherwise the cause is among the
// ranks with the lowest step. It is the rank whose section or stack differs from those of most others, or the
// only rank that does not wait for others. The order in which ranks got stuck proves nothing: ranks that
// train together stop within milliseconds. If several workers may be the cause, none of them is named as the
// cause. Only ranks that train in one group are compared. If several groups hang, each may have its own
// cause, or one may wait for another. Plain values.
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
  bool hard = false;     // false: it may still continue
  std::string what;      // one clause: "has sent no heartbeat for 30 s"
  std::string section;
  std::int64_t step = -1;
  TimePoint since;  // time of its last progress, on the launcher's clock
};

class Hang {
 public:
  // Adds a stall of a rank. It replaces the older stall of the same rank. But a hard stall is replaced only
  // by a `stopped` one.
  void add(Stall stall);
  // Call when the rank has reached `step`. Forgets its stalls of earlier steps.
  void moved(Rank rank, std::int64_t step);
  void add_stacks(Rank rank, NodeId node, std::string_view text) {
    stacks_[rank] = main_stack_of(text);
    nodes_.insert_or_assign(rank, node);
  }
  std::size_t stacks_count() const { return stacks_.size(); }
  // Returns whether some other rank that may train with `rank` has stalled, or has sent its stacks.
  bool knows_others_than(Rank rank, const TrainingGroups& groups = {}) const;
  const std::vector<Stall>& stalls() const { return stalls_; }

  // Returns the ranks that may be the cause, in the order in which they got stuck. These are some of
  // stalls(), or ranks that do not arrive where the others wait. If there is only one suspect, it is the
  // cause. stalls() must not be empty.
  std::vector<Stall> suspects(const TrainingGroups& groups = {}) const;
  // Returns lines that say where the ranks are, according to their stacks. The culprit has several lines, and
  // each other rank has one. Ranks with the same line share it. Ranks that train apart from the suspects are
  // left out.
  std::vector<std::string> evidence(const TrainingGroups& groups = {}) const;
  // Returns whether the stack of the rank shows that it waits for other ranks.
  bool is_known_to_wait(Rank rank) const;
  // If the innermost line is the same in the stacks of all these ranks, returns it. Otherwise returns "".
  std::string place_of(const std::vector<Stall>& ranks) const;

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(stalls_, stacks_, nodes_);
  }
  // Returns whether these fields are consistent after they were read.
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

  std::vector<Stall> stalls_;  // at most one for each rank
  std::map<Rank, MainStack> stacks_;
  std::map<Rank, NodeId> nodes_;  // of the ranks in stacks_
};

}  // namespace muster::launcher
