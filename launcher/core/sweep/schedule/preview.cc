#include "launcher/core/sweep/schedule/schedulers.h"

namespace muster::launcher::sweep {
namespace {

// Adds the rungs of successive halving. At each rung, only the best part of the trials continues.
void add_halving(const ScheduleSettings& settings, const Bracket& bracket, std::int32_t number,
                 Preview& preview) {
  std::int32_t trials = bracket.trials;
  std::int64_t before = 0;
  for (const std::int64_t rung : bracket.rungs) {
    preview.rungs.push_back({.bracket = number, .steps = rung, .trials = trials});
    preview.steps += trials * (rung - before);
    before = rung;
    trials = share_of(trials, settings.eta);
  }
}

// Adds rungs that all trials may reach.
void add_all(const ScheduleSettings& settings, const std::vector<std::int64_t>& rungs, Preview& preview) {
  for (const std::int64_t rung : rungs)
    preview.rungs.push_back({.bracket = 0, .steps = rung, .trials = settings.trials});
  preview.steps = preview.all_steps;
}

void add_brackets(const ScheduleSettings& settings, Preview& preview) {
  std::int32_t created = 0;
  for (std::int32_t number = next_bracket(settings, -1);;) {
    const Bracket bracket = bracket_of(settings, number);
    add_halving(settings, bracket, number, preview);
    created += bracket.trials;
    if (created >= settings.trials) return;
    number = next_bracket(settings, number);
  }
}

}  // namespace

Preview preview(const ScheduleSettings& settings) {
  Preview preview{.rungs = {}, .steps = 0, .all_steps = settings.trials * settings.max_steps};
  switch (settings.kind) {
    case ScheduleSettings::Kind::kAsha:
      add_halving(settings, {.trials = settings.trials, .rungs = rungs_of(settings)}, 0, preview);
      break;
    case ScheduleSettings::Kind::kHyperband: add_brackets(settings, preview); break;
    case ScheduleSettings::Kind::kAshaStop: add_all(settings, rungs_of(settings), preview); break;
    case ScheduleSettings::Kind::kMedian:
    case ScheduleSettings::Kind::kPbt:
    case ScheduleSettings::Kind::kNone:
      if (settings.max_steps > 0) add_all(settings, {settings.max_steps}, preview);
      break;
  }
  return preview;
}

}  // namespace muster::launcher::sweep
