#include "launcher/core/view/progress.h"

#include <fmt/core.h>

namespace muster::launcher {

std::string progress_text(const StartProgress& progress) {
  std::string text = fmt::format("starting: {} of {} agents joined", progress.agents_joined, progress.agents);
  if (progress.workers > 0)
    text += fmt::format(", {} of {} workers started", progress.workers_started, progress.workers);
  if (!progress.waiting_for.empty()) text += "; " + progress.waiting_for;
  return text;
}

}  // namespace muster::launcher
