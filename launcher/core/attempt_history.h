// What is remembered of each attempt, for the report: its size, its steps, how it ended. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/wire/messages.h"
#include "launcher/core/verdict.h"

namespace muster::launcher {

struct AttemptHistory {
  Attempt attempt;
  std::optional<std::int64_t> resumed_step;  // said by rank 0
  std::optional<std::int64_t> last_step;     // the highest that any rank reported
  std::optional<std::int64_t> committed_step;
  std::optional<std::int64_t> repeated_steps;
  std::optional<Verdict> verdict;  // empty while it runs
  std::int32_t world_size = 0;
  std::int32_t node_count = 0;
};

// Adds to the last of `history` what one of its workers reported.
void note_report(std::vector<AttemptHistory>& history, const wire::WorkerReported& reported);

}  // namespace muster::launcher
