#include "launcher/core/job/restart_policy.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fmt/ranges.h>

#include "launcher/core/text/words.h"
#include "launcher/core/verdict/hints.h"

namespace muster::launcher {

namespace {

// Returns whether the cause is outside of the program. It is if a worker was killed or stopped, if a node was
// lost, or if the machine refused something.
bool is_from_outside(const Verdict& verdict) {
  switch (verdict.kind) {
    case Verdict::Kind::kNodeLost:
    case Verdict::Kind::kRefused: return true;
    case Verdict::Kind::kHang: return verdict.stopped_from_outside;
    case Verdict::Kind::kSignal:
      return verdict.culprit && (verdict.culprit->signal == SIGKILL || verdict.culprit->signal == SIGTERM);
    default: return false;
  }
}

// Returns the text that is compared with the text of another failure. It is empty if the program left none.
const std::string& text_of(const WorkerEnd& end) {
  return end.cause.empty() ? end.exception : end.cause;
}

// Returns the value for Failure::at_start. Apart from the cases that are listed there, the value is also ""
// in these two:
// - The rank only missed another rank. It may succeed next time.
// - The rank has left no text. Then the cause is not known.
std::string failure_at_start(const Verdict& verdict, const std::string& what) {
  const bool own = verdict.kind == Verdict::Kind::kExit || verdict.kind == Verdict::Kind::kSignal;
  if (!own || is_from_outside(verdict) || !verdict.at_start || verdict.lived >= RestartPolicy::kLongLife)
    return {};
  const WorkerEnd& end = *verdict.culprit;
  if (shows_lost_peer(end.text()) || (text_of(end).empty() && end.last_lines.empty())) return {};
  return text_of(end).empty() ? fmt::format("{}\n{}", what, fmt::join(end.last_lines, "\n")) : what;
}

}  // namespace

// The failure does not contain the rank. If all ranks fail in the same way, it is chance which of them fails
// first.
Failure as_failure(const Verdict& verdict, bool committed) {
  Failure failure{.from_outside = is_from_outside(verdict),
                  .what = std::string(name_of(verdict.kind)),
                  .lived = verdict.lived,
                  .step = verdict.step,
                  .committed = committed,
                  .could_not_start = verdict.refused_by_node || verdict.never_came ||
                                     verdict.kind == Verdict::Kind::kRefused,
                  .refused_by_node = verdict.refused_by_node};
  if (verdict.culprit && verdict.kind != Verdict::Kind::kHang) {
    const WorkerEnd& end = *verdict.culprit;
    const std::string& text = verdict.is_early_leave() ? verdict.cause : text_of(end);
    failure.has_text = !text.empty();
    failure.what += fmt::format(" code {} signal {} {}", end.exit_code, end.signal, text);
    failure.at_start = failure_at_start(verdict, failure.what);
  }
  if (verdict.lost_before_start) failure.lost_before_start = verdict.at;
  return failure;
}

std::int32_t RestartPolicy::used(TimePoint now) const {
  return static_cast<std::int32_t>(
      std::ranges::count_if(restarts_, [&](TimePoint at) { return at + limits_.window > now; }));
}

bool RestartPolicy::belongs_to_last_restart(const Failure& failure) const {
  return failure.lost_before_start && !restarts_.empty() &&
         *failure.lost_before_start <= restarts_.back() + kTogether;
}

RestartDecision RestartPolicy::on_failure(const Failure& failure, TimePoint now) {
  if (belongs_to_last_restart(failure))
    return {.reason = fmt::format("a node was lost within {:g} s of restart {} of {} and belongs to it",
                                  in_seconds(kTogether), used(now), limits_.max_restarts),
            .counted = false};
  const bool recent = !restarts_.empty() && restarts_.back() + limits_.window > now;
  if (!recent) {
    same_failures_ = fruitless_failures_ = short_lives_ = failed_starts_ = 0;
    last_at_start_.clear();
  }
  count(failure);
  const std::int32_t used_count = used(now);
  if (used_count >= limits_.max_restarts) {
    return {RestartDecision::Kind::kBudgetIsSpent,
            {},
            limits_.max_restarts == 0
                ? "restarts are not allowed"
                : fmt::format("{} of {} restarts are used", used_count, limits_.max_restarts)};
  }
  if (same_at_start_ && limits_.no_progress_limit > 0) {
    return {RestartDecision::Kind::kNoProgress,
            {},
            "the same failure twice within 30 s and before a step was reported"};
  }
  if (!failure.from_outside && limits_.no_progress_limit > 0 && same_failures_ >= limits_.no_progress_limit) {
    return {RestartDecision::Kind::kNoProgress,
            {},
            fmt::format("the same failure {} times in a row without a new checkpoint or a further step",
                        same_failures_)};
  }
  std::erase_if(restarts_, [&](TimePoint at) { return at + limits_.window <= now; });
  restarts_.push_back(now);
  return {RestartDecision::Kind::kRestart, delay_after(failure),
          fmt::format("restart {} of {}", used_count + 1, limits_.max_restarts)};
}

void RestartPolicy::count(const Failure& failure) {
  const bool progressed = failure.committed || (failure.step && failure.step > newest_step_);
  newest_step_ = std::max(newest_step_, failure.step);
  short_lives_ = failure.lived < kShortLife ? short_lives_ + 1 : 0;
  failed_starts_ = failure.could_not_start ? failed_starts_ + 1 : 0;
  if (progressed) same_failures_ = 0;
  if (progressed || failure.lived >= kLongLife) fruitless_failures_ = 0;
  same_at_start_ = !failure.at_start.empty() && failure.at_start == last_at_start_;
  if (failure.from_outside) return;
  last_at_start_ = failure.at_start;
  const bool may_be_another = !failure.has_text && failure.lived >= kLongLife;
  if (may_be_another || failure.what != last_own_failure_) same_failures_ = 0;
  last_own_failure_ = failure.what;
  ++same_failures_;
  ++fruitless_failures_;
}

Duration RestartPolicy::delay_after(const Failure& failure) {
  constexpr std::int32_t kShortLives = 3;
  if (failure.refused_by_node && failed_starts_ == 1) return {};
  if (failure.could_not_start) return back_off(failed_starts_ - 1);
  if (failure.from_outside)
    return short_lives_ < kShortLives ? Duration{} : back_off(short_lives_ - kShortLives);
  return fruitless_failures_ < 2 ? Duration{} : back_off(fruitless_failures_ - 2);
}

// Returns the length of a back-off. It is changed at random by up to 25 %. So jobs that failed together do
// not restart together.
Duration RestartPolicy::back_off(std::int32_t doublings) {
  const double most = in_seconds(kMostDelay);
  const double doubled = std::min(in_seconds(limits_.delay) * std::exp2(doublings), most);
  const double jitter = std::uniform_real_distribution<double>(0.75, 1.25)(rng_);
  return std::chrono::duration_cast<Duration>(Seconds(std::min(doubled * jitter, most)));
}

}  // namespace muster::launcher
