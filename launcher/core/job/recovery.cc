#include "launcher/core/job/recovery.h"

#include <utility>

namespace muster::launcher {

namespace {

bool is_cut_short(Verdict::Kind kind) {
  return kind == Verdict::Kind::kRefused || kind == Verdict::Kind::kInterrupted ||
         kind == Verdict::Kind::kCancelled || kind == Verdict::Kind::kTimeLimit;
}

}  // namespace

Recovery::Next Recovery::after(Verdict verdict, const Circumstances& attempt, TimePoint now) {
  // Nothing has failed yet, so the next attempt does not count as a restart.
  if (attempt.another_network && verdict.kind == Verdict::Kind::kRefused && !forbidding(verdict, attempt))
    return {std::move(verdict), RestartDecision{.reason = "trying another network"}};
  if (verdict.kind == Verdict::Kind::kGrown) {
    auto instead = forbidding(verdict, attempt);
    if (instead) return {*std::move(instead)};
    ++growth_count_;
    return repeat(std::move(verdict), {.reason = "nodes were added"});
  }
  if (may_help(verdict, attempt)) {
    const bool committed = attempt.commit_count > std::exchange(commits_before_, attempt.commit_count);
    RestartDecision decision = policy_.on_failure(as_failure(verdict, committed), now);
    switch (decision.kind) {
      case RestartDecision::Kind::kBudgetIsSpent: verdict.gave_up = Verdict::GaveUp::kBudget; break;
      case RestartDecision::Kind::kNoProgress:
        verdict.gave_up = Verdict::GaveUp::kNoProgress;
        verdict.final_because = decision.reason;
        break;
      case RestartDecision::Kind::kRestart:
        auto instead = forbidding(verdict, attempt);
        // If the decision is not `counted`, this failure belongs to the last restart. The job restarts again,
        // but repeated_ keeps the failure that led to the last restart.
        if (!instead && !decision.counted) return {std::move(verdict), std::move(decision)};
        if (!instead) {
          ++restart_count_;
          return repeat(std::move(verdict), std::move(decision));
        }
        verdict = *std::move(instead);
    }
  }
  if (repeated_ && is_cut_short(verdict.kind) && !attempt.ran) verdict = ended_after(*repeated_, verdict);
  return {std::move(verdict)};
}

// If a restart is refused, the reason may be temporary. So another restart may succeed later. If the first
// attempt is refused, the user is still there and can remove the reason.
bool Recovery::may_help(const Verdict& verdict, const Circumstances& attempt) const {
  const bool may_start_later = verdict.kind == Verdict::Kind::kRefused && attempt.cannot_start;
  return verdict.restart_may_help() || (may_start_later && repeat_count() > 0);
}

std::optional<Verdict> Recovery::forbidding(const Verdict& failed, const Circumstances& attempt) const {
  if (forbidden_by_) return stopped_after(failed, *forbidden_by_);
  if (attempt.notice && attempt.notice->signal != 0) return stopped_after(failed, *attempt.notice);
  if (attempt.time_is_up || attempt.notice) return out_of_time_after(failed, attempt.committed_on_notice);
  return std::nullopt;
}

Recovery::Next Recovery::repeat(Verdict verdict, RestartDecision decision) {
  if (verdict.kind != Verdict::Kind::kRefused) {  // for a refusal the cause of the restart remains the cause
    repeated_ = verdict;
    repeated_->cause = verdict.cause_and_step();
  }
  return {std::move(verdict), std::move(decision)};
}

Verdict Recovery::abandoned(Verdict verdict) const {
  const bool would_go_on = verdict.restart_may_help() || verdict.kind == Verdict::Kind::kGrown;
  return forbidden_by_ && would_go_on ? stopped_after(verdict, *forbidden_by_) : verdict;
}

}  // namespace muster::launcher
