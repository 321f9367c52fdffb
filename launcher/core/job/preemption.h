// The notice that a job has to leave: who can save and leave by itself, who was told, who has done it.
//
// A notice comes from SIGTERM, SIGUSR1, SIGINT or `launch cancel`, or from the time limit. It is passed on
// only if every rank can take it: one that cannot would keep the others from agreeing on a step. Plain
// values; what follows is decided in job.h.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "launcher/core/job/steps.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

class Preemption {
 public:
  // What a rank said of itself: words, of which "preemption" matters here.
  void hello(Rank rank, std::string_view capabilities);
  bool all_can(std::int32_t world_size) const {
    return capable_.size() == static_cast<std::size_t>(world_size);
  }
  // The notice is given: the ranks have time until `until`. What `steps` has now was committed before.
  void give(const StopWish& wish, TimePoint until, const Steps& steps);
  // Another wish for the end came after the notice: the end is called after this one.
  void want(const StopWish& wish) { wish_ = wish; }
  bool given() const { return given_; }
  const StopWish& wish() const { return wish_; }  // signal 0: the time limit's
  TimePoint until() const { return until_; }
  std::string why() const;             // "SIGTERM"
  std::string how_to_end_now() const;  // for a user who waits, or ""; a scheduler knows
  // The rank leaves, when its checkpoint was committed, which may be that of a group.
  void leaves(Rank rank) { leaving_.insert(rank); }
  bool some_leave() const { return !leaving_.empty(); }
  // The lineage has answered: the newest checkpoint of the attempt is of this step; nothing: none.
  void found(std::optional<std::int64_t> step);
  bool has_committed(const Steps& steps) const;  // since the notice
  // Whether only the lineage can tell if the ranks have saved: their reports may be lost with them.
  bool is_unclear(const Steps& steps) const { return given_ && !has_committed(steps) && !looked_; }

  // What a journal keeps of it (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(capable_, given_, wish_, until_, commits_before_, committed_before_, leaving_, looked_, found_);
  }

 private:
  std::set<Rank> capable_;
  bool given_ = false;
  StopWish wish_;
  TimePoint until_;
  std::int64_t commits_before_ = 0;
  std::optional<std::int64_t> committed_before_;
  std::set<Rank> leaving_;
  bool looked_ = false;
  bool found_ = false;
};

}  // namespace muster::launcher
