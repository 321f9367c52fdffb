#include "launcher/core/job/attempt_history.h"

#include <algorithm>

#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

void raise_to(std::optional<std::int64_t>& value, std::int64_t candidate) {
  value = std::max(value.value_or(candidate), candidate);
}

// That the next launch can go on from, as far as it was told.
std::optional<std::int64_t> saved_step(std::span<const AttemptHistory> history) {
  std::optional<std::int64_t> saved;
  for (const AttemptHistory& attempt : history) {
    if (attempt.offered_step) saved = attempt.offered_step;
    if (attempt.resumed_step) saved = attempt.resumed_step;  // an older one, if the newest is damaged
    if (attempt.committed_step) raise_to(saved, *attempt.committed_step);
  }
  return saved;
}

}  // namespace

std::optional<std::int64_t> lost_steps(std::span<const AttemptHistory> history) {
  std::optional<std::int64_t> newest;
  for (const AttemptHistory& attempt : history) newest = std::max(newest, attempt.last_step);
  if (!newest) return std::nullopt;
  return std::max<std::int64_t>(0, *newest - saved_step(history).value_or(0));
}

std::string loss_text(std::span<const AttemptHistory> history) {
  const auto lost = lost_steps(history);
  const auto saved = saved_step(history);
  if (!lost || (*lost == 0 && !saved)) return {};
  if (*lost == 0) return fmt::format("step {} is saved, and none is lost", *saved);
  return fmt::format("{} {} lost{}", count_of(static_cast<std::size_t>(*lost), "step"),
                     *lost == 1 ? "is" : "are", saved ? "" : ": no Muster checkpoint");
}

void note_report(std::vector<AttemptHistory>& history, const wire::WorkerReported& reported) {
  using enum wire::ReportKind;
  AttemptHistory& current = history.back();
  if (reported.kind == kProfile)
    current.profiles[reported.rank] = {reported.rank.value(), reported.step, reported.parts_ns};
  if (reported.kind != kResumed || reported.rank != Rank(0)) return;
  current.resumed_step = reported.step;
  const auto before = history.size() > 1 ? history[history.size() - 2].last_step : std::nullopt;
  if (before) current.repeated_steps = std::max<std::int64_t>(0, *before - reported.step);
}

void note_end(AttemptHistory& attempt, const Steps& steps, const Verdict& verdict) {
  attempt.last_step = steps.newest();
  attempt.committed_step = steps.committed();
  attempt.verdict = verdict;
}

void note_pace(AttemptHistory& current, const Slowness& now, bool slower) {
  const auto known = std::ranges::find(current.stragglers, now.rank, &Slowness::rank);
  if (known == current.stragglers.end()) {
    current.stragglers.push_back(now);
  } else if (slower) {
    *known = now;
  } else {
    known->until_step = now.since_step;
  }
}

}  // namespace muster::launcher
