#include "launcher/core/job/chronicle.h"

#include <algorithm>
#include <utility>

namespace muster::launcher {

void Chronicle::begin(AttemptHistory attempt) {
  steps_.begin_attempt();
  stepped_ = false;
  history_.push_back(std::move(attempt));
}

bool Chronicle::note(const wire::WorkerReported& reported) {
  using enum wire::ReportKind;
  if (reported.step < 0) return false;  // a heartbeat may arrive before the first step
  switch (reported.kind) {
    case kStep:
    case kHeartbeat: note_step(reported.rank, reported.step); break;
    case kCommitted: steps_.committed(reported.step); return true;
    case kSaved: return steps_.saved(reported.rank, reported.step, history_.back().world_size);
    case kResumed: note_resume(reported); break;
    case kProfile:
      history_.back().profiles[reported.rank] = {reported.rank.value(), reported.step, reported.parts_ns};
      break;
    default: break;
  }
  return false;
}

// When a program begins to train, it first reports the step that it resumes from. That report is not
// progress.
void Chronicle::note_step(Rank rank, std::int64_t step) {
  steps_.made(rank, step);
  const AttemptHistory& current = history_.back();
  if (step > current.resumed_step.value_or(current.offered_step.value_or(0))) stepped_ = true;
}

// Notes the step at which rank 0 resumes, and how many steps are repeated. A step is repeated if it comes
// after the resumed step, and an earlier attempt has already made it. If several earlier attempts have made
// steps, only the newest of those attempts counts.
void Chronicle::note_resume(const wire::WorkerReported& reported) {
  if (reported.rank != Rank(0)) return;
  AttemptHistory& current = history_.back();
  current.resumed_step = reported.step;
  std::optional<std::int64_t> before;
  for (std::size_t i = history_.size() - 1; i-- > 0 && !before;) before = history_[i].last_step;
  if (before) current.repeated_steps = std::max<std::int64_t>(0, *before - reported.step);
}

// Keeps the newest slowness of each rank.
void Chronicle::note(const PaceChanged& change, NodeId node) {
  const Slowness now{change.rank, node, change.step, change.busy, change.usual};
  std::vector<Slowness>& known = history_.back().stragglers;
  const auto same = std::ranges::find(known, now.rank, &Slowness::rank);
  if (same == known.end()) {
    known.push_back(now);
  } else if (change.slower) {
    *same = now;
  } else {
    same->until_step = now.since_step;
  }
}

std::string Chronicle::stalled(std::string what, TimePoint since) {
  constexpr std::size_t kMostStalls = 100;
  std::vector<ToldStall>& stalls = history_.back().stalls;
  if (stalls.size() == kMostStalls) stalls.erase(stalls.begin());
  stalls.push_back({std::move(what), since});
  return stalls.back().what;
}

std::string Chronicle::moved_on(TimePoint now) {
  if (history_.empty() || history_.back().stalls.empty() || history_.back().stalls.back().until) return {};
  ToldStall& stall = history_.back().stalls.back();
  stall.until = now;
  return text_of(stall);
}

void Chronicle::end(const Verdict& verdict) {
  if (history_.empty() || history_.back().verdict) return;
  AttemptHistory& ended = history_.back();
  ended.last_step = steps_.newest();
  ended.committed_step = steps_.committed();
  ended.verdict = verdict;
}

void Chronicle::saved(std::int64_t step) {
  if (history_.empty()) return;
  std::optional<std::int64_t>& committed = history_.back().committed_step;
  committed = std::max(committed, std::optional(step));
}

std::optional<std::uint64_t> Chronicle::resume_step() const {
  const auto offered = history_.empty() ? std::nullopt : history_.back().offered_step;
  return offered ? std::optional(static_cast<std::uint64_t>(*offered)) : std::nullopt;
}

bool Chronicle::has_another_size() const {
  return history_.size() > 1 && history_[history_.size() - 2].world_size != history_.back().world_size;
}

}  // namespace muster::launcher
