// A job can get a notice that it must leave. This keeps the facts about it: which ranks can save and leave by
// themselves, whether they were told to, and which ranks leave.
//
// A notice comes from SIGTERM, SIGUSR1, SIGINT, `launch cancel` or the time limit. The job passes the notice
// on only if every rank can save and leave. If one rank could not, the other ranks could not agree on a step.
// Plain values; job.h decides.
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
  // Call when a rank says what it is capable of. The words are separated by spaces. Only "preemption" matters
  // here.
  void hello(Rank rank, std::string_view capabilities);
  bool all_can(std::int32_t world_size) const {
    return capable_.size() == static_cast<std::size_t>(world_size);
  }
  // Call when the notice to end is given. The ranks have time until `until`. `steps` has the checkpoints that
  // are committed already; has_committed() ignores these.
  void give(const StopWish& wish, TimePoint until, const Steps& steps);
  // Call when the user has asked for the end again, in another way. `wish` becomes the reason of the notice.
  void want(const StopWish& wish) { wish_ = wish; }
  bool given() const { return given_; }
  const StopWish& wish() const { return wish_; }  // signal 0: the time limit
  TimePoint until() const { return until_; }
  std::string why() const;             // "SIGTERM"
  std::string how_to_end_now() const;  // for a user who waits; "" for a scheduler
  // Notes that the rank leaves, because a checkpoint was committed. The checkpoint is that of the rank alone
  // or of its group.
  void leaves(Rank rank) { leaving_.insert(rank); }
  bool some_leave() const { return !leaving_.empty(); }
  // Call with the answer of the lineage. It is the step of the attempt's newest checkpoint, or nullopt if
  // there is none.
  void found(std::optional<std::int64_t> step);
  bool has_committed(const Steps& steps) const;  // since the notice
  // Returns whether the job has to ask the lineage if the ranks have saved a checkpoint since the notice. It
  // has to ask if no report names such a checkpoint, because reports may have been lost with the ranks. It
  // asks only once.
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
