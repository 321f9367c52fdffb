// Keeps the notice that a job must leave: which ranks can save and leave by themselves, whether they were
// told to, and which ranks leave.
//
// A notice comes from SIGTERM, SIGUSR1, SIGINT, `launch cancel` or the time limit. The job passes it on only
// if every rank can act on it: a rank that cannot would keep the others from agreeing on a step. Plain
// values; job.h decides.
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
  // A rank's capabilities, separated by spaces; only "preemption" matters here.
  void hello(Rank rank, std::string_view capabilities);
  bool all_can(std::int32_t world_size) const {
    return capable_.size() == static_cast<std::size_t>(world_size);
  }
  // Gives the notice: the ranks have time until `until`. has_committed() ignores commits that `steps` has
  // now.
  void give(const StopWish& wish, TimePoint until, const Steps& steps);
  // Replaces the reason of the notice: the user has asked for the end in another way since.
  void want(const StopWish& wish) { wish_ = wish; }
  bool given() const { return given_; }
  const StopWish& wish() const { return wish_; }  // signal 0: the time limit
  TimePoint until() const { return until_; }
  std::string why() const;             // "SIGTERM"
  std::string how_to_end_now() const;  // for a user who waits; "" for a scheduler
  // Notes that the rank leaves, because its checkpoint (its own or that of its group) was committed.
  void leaves(Rank rank) { leaving_.insert(rank); }
  bool some_leave() const { return !leaving_.empty(); }
  // Call with the lineage's answer: the step of the attempt's newest checkpoint; nullopt: there is none.
  void found(std::optional<std::int64_t> step);
  bool has_committed(const Steps& steps) const;  // since the notice
  // Whether the lineage must be asked if the ranks have saved: their reports may have been lost with the
  // ranks.
  bool is_unclear(const Steps& steps) const { return given_ && !has_committed(steps) && !looked_; }

  // For the journal (journal/state.h).
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
