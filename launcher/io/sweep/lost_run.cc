#include "launcher/io/sweep/lost_run.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/numbered.h"
#include "common/base/text.h"
#include "common/wire/json.h"
#include "common/wire/metric_name.h"
#include "launcher/core/sweep/history/metric_line.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher::sweep {

namespace {

namespace fs = std::filesystem;

constexpr Duration kLostRunLimit = std::chrono::seconds(30);
constexpr auto kLookPeriod = std::chrono::milliseconds(5);
constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;

void wait_for_end(const std::string& job_id) {
  const TimePoint end = Clock::now() + kLostRunLimit;
  while (processes_by_job().contains(job_id) && Clock::now() < end) std::this_thread::sleep_for(kLookPeriod);
}

// Returns whether the rank has ended with 0. A torn last line ends the file.
bool read_metrics(const std::string& text, LostRun& run) {
  bool finished = false;
  for (const std::string_view line : split(text, '\n')) {
    const auto fact = nlohmann::json::parse(line, nullptr, false);
    if (!fact.is_object()) continue;
    finished = fact.value("finished", finished);
    if (!fact.contains("values") || !fact["values"].is_object()) continue;
    LostRun::Report report{.step = fact.value("step", std::int64_t{0}), .values = {}};
    for (const auto& [name, value] : fact["values"].items()) {
      const auto number = value.is_string() ? parse_number<double>(value.get<std::string>()) : std::nullopt;
      if (number) report.values[name] = *number;
    }
    run.reports.push_back(std::move(report));
  }
  return finished;
}

// As TrialRun hears the lines of a run: without a step, they count up.
void read_lines(const std::string& text, LostRun& run) {
  std::int64_t newest = -1;
  for (const std::string_view line : split(text, '\n')) {
    const auto read = read_metric_line(line);
    if (!read || !*read) continue;
    const std::int64_t step = (*read)->step.value_or(newest + 1);
    newest = std::max(newest, step);
    run.reports.push_back({.step = step, .values = (*read)->values});
  }
}

}  // namespace

LostRun read_lost_run(const std::string& job_directory, std::int32_t world_size) {
  wait_for_end(fs::path(job_directory).filename());
  std::map<std::uint64_t, fs::path> attempts;
  (void)for_each_numbered<std::uint64_t>(
      job_directory, "attempt_",
      [&](std::uint64_t number, const fs::path& path) { attempts[number] = path; });
  LostRun run;
  for (const auto& [number, attempt] : attempts) {
    std::int32_t finished_count = 0;
    for (std::int32_t rank = 0; rank < world_size; ++rank) {
      const fs::path folder = attempt / fmt::format("rank_{}", rank);
      finished_count +=
          read_metrics(read_file(folder / wire::kMetricsFile, kMostBytes).value_or(""), run) ? 1 : 0;
      read_lines(read_file(folder / "stdout.log", kMostBytes).value_or(""), run);
    }
    run.finished = finished_count == world_size;
  }
  std::ranges::sort(run.reports, {}, &LostRun::Report::step);
  return run;
}

}  // namespace muster::launcher::sweep
