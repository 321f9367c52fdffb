#include "launcher/core/job/preemption.h"

#include <algorithm>
#include <csignal>

#include "common/base/text.h"

namespace muster::launcher {

void Preemption::hello(Rank rank, std::string_view capabilities) {
  const auto words = split(capabilities, ' ');
  if (std::ranges::find(words, "preemption") != words.end()) capable_.insert(rank);
}

void Preemption::give(const StopWish& wish, TimePoint until, const Steps& steps) {
  given_ = true;
  wish_ = wish;
  until_ = until;
  commits_before_ = steps.commit_count();
  committed_before_ = steps.committed();
}

std::string Preemption::why() const {
  return wish_.signal == 0 ? "the time limit is near" : name_of(wish_);
}

std::string Preemption::how_to_end_now() const {
  if (wish_.cancelled) return "; `launch cancel --now` stops at once";
  return wish_.signal == SIGINT ? "; Ctrl-C again stops at once" : "";
}

void Preemption::found(std::optional<std::int64_t> step) {
  looked_ = true;
  found_ = given_ && step > committed_before_;
}

bool Preemption::has_committed(const Steps& steps) const {
  const bool all_leave = some_leave() && leaving_ == capable_;
  return given_ && (found_ || all_leave || steps.commit_count() > commits_before_);
}

}  // namespace muster::launcher
