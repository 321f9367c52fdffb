#include "launcher/core/attempt_history.h"

#include <algorithm>

namespace muster::launcher {

namespace {

void raise_to(std::optional<std::int64_t>& value, std::int64_t candidate) {
  value = std::max(value.value_or(candidate), candidate);
}

}  // namespace

void note_report(std::vector<AttemptHistory>& history, const wire::WorkerReported& reported) {
  AttemptHistory& current = history.back();
  const bool moves = reported.kind == "step" || reported.kind == "heartbeat";
  if (moves && reported.step >= 0) raise_to(current.last_step, reported.step);
  if (reported.kind == "profile")
    current.profiles[reported.rank] = {reported.rank.value(), reported.step, reported.parts_ns};
  if (reported.kind == "committed") raise_to(current.committed_step, reported.step);
  if (reported.kind != "resumed" || reported.rank != Rank(0)) return;
  current.resumed_step = reported.step;
  const auto before = history.size() > 1 ? history[history.size() - 2].last_step : std::nullopt;
  if (before) current.repeated_steps = std::max<std::int64_t>(0, *before - reported.step);
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
