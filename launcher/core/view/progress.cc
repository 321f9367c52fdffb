#include "launcher/core/view/progress.h"

#include <fmt/core.h>

namespace muster::launcher {

std::optional<StartProgress> start_progress(const Fleet& fleet, const Job& job, const RankTable& ranks,
                                            TimePoint now) {
  const bool workers_start = job.phase() == Phase::kPreparing || job.phase() == Phase::kRunning;
  StartProgress progress{.agents_joined = fleet.there_count(),
                         .agents = fleet.size(),
                         .workers_started = ranks.started_count(job.attempt()),
                         .workers = workers_start ? static_cast<std::size_t>(job.crew().world_size()) : 0,
                         .waiting_for = job.waiting_for(now)};
  const bool workers_are_missing =
      job.phase() == Phase::kRunning && progress.workers_started < progress.workers;
  if (progress.waiting_for.empty() && !workers_are_missing) return std::nullopt;
  return progress;
}

std::string progress_text(const StartProgress& progress) {
  std::string text = fmt::format("starting: {} of {} agents joined", progress.agents_joined, progress.agents);
  if (progress.workers > 0)
    text += fmt::format(", {} of {} workers started", progress.workers_started, progress.workers);
  if (!progress.waiting_for.empty()) text += "; " + progress.waiting_for;
  return text;
}

}  // namespace muster::launcher
