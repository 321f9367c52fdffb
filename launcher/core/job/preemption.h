// The notice that a job has to leave: who can save and leave by itself, who was told, who has done it.
//
// It comes from SIGTERM, SIGUSR1, SIGINT or `launch cancel`, or from the time limit. It is passed on only if
// every rank can take it: one that cannot would keep the others from agreeing on a step. Plain values; what
// follows is decided in job.h.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

class Preemption {
 public:
  // What a rank said of itself: words, of which "preemption" matters here.
  void hello(Rank rank, std::string_view capabilities);
  bool all_can(std::int32_t world_size) const {
    return capable_.size() == static_cast<std::size_t>(world_size);
  }
  // `committed`: the newest step of which that was told until then.
  void give(const StopWish& wish, std::optional<std::int64_t> committed) {
    wish_ = wish, given_ = true, committed_before_ = committed;
  }
  // Somebody wants the same meanwhile, and the end is called after that.
  void want(const StopWish& wish) { wish_ = wish; }
  bool given() const { return given_; }
  const StopWish& wish() const { return wish_; }  // signal 0: the time limit's
  void committed() { committed_ = committed_ || given_; }
  // Of the attempt, in its directory.
  void found(std::optional<std::int64_t> step) {
    committed_ = committed_ || (given_ && step > committed_before_);
  }
  bool has_committed() const { return committed_; }  // since the notice

 private:
  std::set<Rank> capable_;
  bool given_ = false;
  StopWish wish_;
  bool committed_ = false;
  std::optional<std::int64_t> committed_before_;
};

// When the notice of a time limit is due: the grace before it, but not before half of the time.
TimePoint notice_time(TimePoint began, Duration time_limit, Duration grace);

}  // namespace muster::launcher
