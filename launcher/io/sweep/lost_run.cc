#include "launcher/io/sweep/lost_run.h"

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>
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

constexpr auto kLookPeriod = std::chrono::milliseconds(5);
constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;

Status wait_for_end(const std::string& job_id, Duration limit) {
  const TimePoint end = Clock::now() + limit;
  for (;;) {
    const auto processes = processes_by_job();
    const auto left = processes.find(job_id);
    if (left == processes.end()) return {};
    if (Clock::now() >= end)
      return failure(ErrorCode::kUnavailable,
                     "processes of {} still run after {} s: {}: end them, then resume the sweep", job_id,
                     in_seconds(limit), fmt::join(left->second, ", "));
    std::this_thread::sleep_for(kLookPeriod);
  }
}

// Reads what the ranks of a lost run have written, and makes the same reports of it as TrialRun would have
// made.
class RemainsReader {
 public:
  explicit RemainsReader(std::int64_t newest_step) : line_steps_(newest_step) {}

  // Returns whether the rank has ended with 0. If the last line is torn, reading ends before it.
  bool read_metrics(const std::string& path) {
    bool finished = false;
    const std::string text = text_of(path);
    for (const std::string_view line : split(text, '\n')) {
      const auto fact = nlohmann::json::parse(line, nullptr, false);
      if (!fact.is_object()) continue;
      finished = fact.value("finished", finished);
      if (!fact.contains("values") || !fact["values"].is_object()) continue;
      std::map<std::string, double> values;
      for (const auto& [name, value] : fact["values"].items()) {
        const auto number = value.is_string() ? parse_number<double>(value.get<std::string>()) : std::nullopt;
        if (number) values[name] = *number;
      }
      add(fact.value("step", std::int64_t{0}), std::move(values));
    }
    return finished;
  }
  void read_lines(Attempt attempt, Rank rank, const std::string& path) {
    const std::string text = text_of(path);
    for (const std::string_view line : split(text, '\n')) {
      const auto read = read_metric_line(line);
      if (read && *read) add(line_steps_.step_of(attempt, rank, **read), (*read)->values);
    }
  }
  LostRun run() && { return std::move(run_); }

 private:
  std::string text_of(const std::string& path) {
    struct stat facts{};
    if (stat(path.c_str(), &facts) != 0) return "";
    run_.ended_unix = std::max(run_.ended_unix, static_cast<double>(facts.st_mtim.tv_sec) +
                                                    static_cast<double>(facts.st_mtim.tv_nsec) * 1e-9);
    return read_file(path, kMostBytes).value_or("");
  }
  void add(std::int64_t step, std::map<std::string, double> values) {
    run_.reports.emplace(step, std::move(values));
  }

  LineSteps line_steps_;
  LostRun run_;
};

}  // namespace

Expected<LostRun> read_lost_run(const std::string& job_directory, std::int32_t world_size,
                                std::int64_t newest_step, Duration limit) {
  if (Status ended = wait_for_end(fs::path(job_directory).filename(), limit); !ended)
    return std::unexpected(ended.error());
  std::map<std::uint64_t, fs::path> attempts;
  (void)for_each_numbered<std::uint64_t>(
      job_directory, "attempt_",
      [&](std::uint64_t number, const fs::path& path) { attempts[number] = path; });
  RemainsReader reader(newest_step);
  bool finished = false;
  for (const auto& [number, attempt] : attempts) {
    std::int32_t finished_count = 0;
    for (std::int32_t rank = 0; rank < world_size; ++rank) {
      const fs::path folder = attempt / fmt::format("rank_{}", rank);
      finished_count += reader.read_metrics(folder / wire::kMetricsFile) ? 1 : 0;
      reader.read_lines(Attempt(number), Rank(rank), folder / "stdout.log");
    }
    finished = finished_count == world_size;
  }
  LostRun run = std::move(reader).run();
  run.finished = finished;
  return run;
}

}  // namespace muster::launcher::sweep
