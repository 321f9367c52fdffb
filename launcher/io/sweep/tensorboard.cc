#include "launcher/io/sweep/tensorboard.h"

#include <cmath>
#include <fmt/format.h>
#include <ranges>
#include <set>
#include <tuple>
#include <vector>

#include "common/base/event_records.h"
#include "common/base/file.h"

namespace muster::launcher::sweep {

namespace {

// Returns the record that ends the trial's session. A paused trial has such a record, too. If the trial is
// running or waits for its next run, returns "".
std::string end_record(const Trial& trial, double began_unix) {
  using event_records::SessionEnd;
  const bool failed = trial.state == TrialState::kFailed || trial.state == TrialState::kInfeasible;
  if (!trial.is_over() && trial.state != TrialState::kPaused) return "";
  return event_records::session_end({began_unix + trial.ended_at, 0},
                                    failed ? SessionEnd::kFailure : SessionEnd::kSuccess);
}

// Returns the reports, but only with those values that the history still has. When a trial takes over a
// checkpoint (PBT), the history forgets the trial's values of later steps, because the trial may report these
// steps again.
std::vector<Reported> kept_reports(const History& history, std::span<const Event> events) {
  std::set<std::tuple<std::int32_t, std::string, std::int64_t>> seen;
  std::vector<Reported> kept;
  for (const Event& event : std::views::reverse(events)) {
    if (!std::holds_alternative<Reported>(event)) continue;
    Reported report = std::get<Reported>(event);
    const Trial& trial = history.trials().at(static_cast<std::size_t>(report.trial));
    std::erase_if(report.values, [&](const auto& value) {
      return !trial.has_value(value.first, report.step) ||
             !seen.emplace(report.trial, value.first, report.step).second;
    });
    if (!report.values.empty()) kept.push_back(std::move(report));
  }
  std::ranges::reverse(kept);
  return kept;
}

// TensorBoard has no value None. So None becomes the text "None".
event_records::Settings settings_of(const Point& point) {
  event_records::Settings settings;
  for (const auto& [name, value] : point) {
    std::visit(
        [&]<class Type>(const Type& held) {
          if constexpr (std::is_same_v<Type, std::monostate>) {
            settings[name] = text_of(value);
          } else {
            settings[name] = held;
          }
        },
        value);
  }
  return settings;
}

}  // namespace

Status write_tensorboard(const std::string& directory, const History& history, std::span<const Event> events,
                         double began_unix) {
  std::vector<std::string> scalars(history.trials().size());
  for (const Reported& report : kept_reports(history, events))
    scalars.at(static_cast<std::size_t>(report.trial)) +=
        event_records::scalars({began_unix + report.at, report.step}, report.values);
  for (const Trial& trial : history.trials()) {
    if (trial.run_count == 0) continue;
    const double began = began_unix + trial.began_at;
    const std::string folder = fmt::format("{}/trial-{:04}", directory, trial.number);
    const std::string path =
        fmt::format("{}/events.out.tfevents.{:010.0f}.muster", folder, std::floor(began_unix));
    const std::string bytes = event_records::beginning(began) +
                              event_records::session_start({began, 0}, settings_of(trial.point)) +
                              scalars[static_cast<std::size_t>(trial.number)] + end_record(trial, began_unix);
    if (Status made = make_directories(folder); !made) return made;
    if (Status written = write_file_durably(path, bytes); !written) return written;
  }
  return {};
}

}  // namespace muster::launcher::sweep
