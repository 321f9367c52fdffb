#include "launcher/core/restart_policy.h"

#include <algorithm>
#include <fmt/core.h>

#include "launcher/core/words.h"

namespace muster::launcher {

std::string fingerprint(const Verdict& verdict) {
  std::string text{name_of(verdict.kind)};
  // Where all ranks fail alike, it is by chance which is first: only what is not the program's own exit is
  // tied to a place.
  const bool exits =
      verdict.kind != Verdict::Kind::kHang && verdict.culprit && verdict.culprit->exit_code != 0;
  if (verdict.rank && !exits) text += fmt::format(" rank {}", *verdict.rank);
  if (!verdict.rank && verdict.node) text += fmt::format(" node {}", *verdict.node);
  if (verdict.culprit && verdict.kind != Verdict::Kind::kHang) {
    text += fmt::format(" code {} signal {} {}", verdict.culprit->exit_code, verdict.culprit->signal,
                        first_line(verdict.culprit->message));
  }
  if (verdict.step) text += fmt::format(" step {}", *verdict.step);
  return text;
}

std::int32_t RestartPolicy::used(TimePoint now) const {
  return static_cast<std::int32_t>(
      std::ranges::count_if(restarts_, [&](TimePoint at) { return at + limits_.window > now; }));
}

RestartDecision RestartPolicy::on_failure(const std::string& fingerprint, bool progressed, TimePoint now) {
  const bool recent = !restarts_.empty() && restarts_.back() + limits_.window > now;
  const bool in_a_row = !progressed && recent;
  if (!in_a_row) fruitless_restarts_ = 0;
  same_failures_ = in_a_row && fingerprint == last_fingerprint_ ? same_failures_ + 1 : 1;
  last_fingerprint_ = fingerprint;
  const std::int32_t used_count = used(now);
  if (used_count >= limits_.max_restarts) {
    return {RestartDecision::Kind::kBudgetIsSpent,
            {},
            limits_.max_restarts == 0
                ? "restarts are not allowed"
                : fmt::format("{} of {} restarts are used", used_count, limits_.max_restarts)};
  }
  if (limits_.no_progress_limit > 0 && same_failures_ >= limits_.no_progress_limit) {
    return {RestartDecision::Kind::kNoProgress,
            {},
            fmt::format("the same failure {} times in a row without a new checkpoint", same_failures_)};
  }
  const Duration delay = next_delay();
  ++fruitless_restarts_;
  std::erase_if(restarts_, [&](TimePoint at) { return at + limits_.window <= now; });
  restarts_.push_back(now);
  return {RestartDecision::Kind::kRestart, delay,
          fmt::format("restart {} of {}", used_count + 1, limits_.max_restarts)};
}

// A quarter more or less, so that jobs which failed together do not come back together.
Duration RestartPolicy::next_delay() {
  if (fruitless_restarts_ == 0) return {};
  constexpr int kMostDoublings = 20;
  const auto doubled = limits_.delay * (std::int64_t{1} << std::min(fruitless_restarts_ - 1, kMostDoublings));
  const double jitter = std::uniform_real_distribution<double>(0.75, 1.25)(rng_);
  const auto wanted = std::chrono::duration_cast<Duration>(std::min(doubled, kMostDelay) * jitter);
  return std::min(wanted, kMostDelay);
}

}  // namespace muster::launcher
