#include "launcher/core/sweep/view/preview_table.h"

#include <algorithm>
#include <fmt/format.h>

#include "launcher/core/text/duration.h"
#include "launcher/core/text/table.h"
#include "launcher/core/text/words.h"

namespace muster::launcher::sweep {

namespace {

// Returns the shortest possible time. The sweep takes this long if all slots are always busy.
std::optional<Duration> time_of(std::int64_t steps, const PreviewFacts& facts) {
  if (!facts.step) return std::nullopt;
  return duration_of(static_cast<double>(steps) * in_seconds(*facts.step) /
                     static_cast<double>(std::max<std::size_t>(facts.slots, 1)));
}

std::string with_time(std::int64_t steps, const PreviewFacts& facts) {
  const auto time = time_of(steps, facts);
  const std::string text = fmt::format("{}", count_of(static_cast<std::size_t>(steps), "step"));
  return time ? fmt::format("{}, at least {}", text, duration_text(in_seconds(*time))) : text;
}

}  // namespace

std::string preview_as_text(const PreviewFacts& facts, std::size_t width) {
  const Preview& shown = facts.preview;
  std::vector<Row> rows;
  for (const Rung& rung : shown.rungs)
    rows.push_back({std::to_string(rung.bracket), std::to_string(rung.steps), std::to_string(rung.trials)});
  std::string text;
  if (!rows.empty())
    text = table_text({{"BRACKET", true}, {"STEPS", true}, {"TRIALS", true}}, std::move(rows), width);
  text += fmt::format("{} at once\n", count_of(facts.slots, "trial"));
  if (shown.all_steps == 0) return text + "each trial ends by itself: give --max-steps to see the cost\n";
  text += fmt::format("in all {}\n", with_time(shown.steps, facts));
  if (shown.steps < shown.all_steps)
    text += fmt::format("without a scheduler {}\n", with_time(shown.all_steps, facts));
  return text;
}

nlohmann::ordered_json preview_as_json(const PreviewFacts& facts) {
  const Preview& shown = facts.preview;
  auto rungs = nlohmann::ordered_json::array();
  for (const Rung& rung : shown.rungs)
    rungs.push_back({{"bracket", rung.bracket}, {"steps", rung.steps}, {"trials", rung.trials}});
  const auto seconds = [&](std::int64_t steps) {
    const auto time = time_of(steps, facts);
    return time ? nlohmann::ordered_json(in_seconds(*time)) : nlohmann::ordered_json(nullptr);
  };
  return {{"rungs", std::move(rungs)},
          {"parallel", facts.slots},
          {"steps", shown.steps},
          {"steps_without_scheduler", shown.all_steps},
          {"seconds", seconds(shown.steps)},
          {"seconds_without_scheduler", seconds(shown.all_steps)}};
}

}  // namespace muster::launcher::sweep
