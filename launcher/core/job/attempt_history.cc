#include "launcher/core/job/attempt_history.h"

#include <algorithm>

#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

void raise_to(std::optional<std::int64_t>& value, std::int64_t candidate) {
  value = std::max(value.value_or(candidate), candidate);
}

}  // namespace

std::optional<std::int64_t> saved_step(std::span<const AttemptHistory> history) {
  std::optional<std::int64_t> saved;
  for (const AttemptHistory& attempt : history) {
    if (attempt.offered_step) saved = attempt.offered_step;
    if (attempt.resumed_step)
      saved = attempt.resumed_step;  // an older step, if the newest checkpoint is damaged
    if (attempt.committed_step) raise_to(saved, *attempt.committed_step);
  }
  return saved;
}

std::optional<std::int64_t> lost_steps(std::span<const AttemptHistory> history) {
  std::optional<std::int64_t> newest;
  for (const AttemptHistory& attempt : history) newest = std::max(newest, attempt.last_step);
  if (!newest) return std::nullopt;
  return std::max<std::int64_t>(0, *newest - saved_step(history).value_or(0));
}

std::string text_of(const ToldStall& stall) {
  return stall.until ? fmt::format("{}; it went on after {:.0f} s", stall.what,
                                   in_seconds(*stall.until - stall.since))
                     : stall.what;
}

std::string loss_text(std::span<const AttemptHistory> history) {
  const auto lost = lost_steps(history);
  const auto saved = saved_step(history);
  if (!lost || (*lost == 0 && !saved)) return {};
  if (*lost == 0) return fmt::format("step {} is saved; no step is lost", *saved);
  return fmt::format("{} {} lost{}", count_of(*lost, "step"), *lost == 1 ? "is" : "are",
                     saved ? "" : ": no Muster checkpoint");
}

}  // namespace muster::launcher
