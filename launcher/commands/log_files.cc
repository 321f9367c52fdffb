#include "launcher/commands/log_files.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/base/text.h"
#include "common/wire/json.h"

namespace muster::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kEventsLimitBytes = 256 << 20;
constexpr std::string_view kStreams[] = {"stdout", "stderr"};

// "attempt_12", 12
template <class Number>
std::optional<Number> number_after(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  return parse_number<Number>(std::string_view(name).substr(prefix.size()));
}

}  // namespace

LogFiles::LogFiles(JobRecord job, LocalTime local, Wanted wanted, OnProblem on_problem)
    : job_(std::move(job)), local_(local), wanted_(std::move(wanted)), on_problem_(std::move(on_problem)) {}

Status LogFiles::read(const OnLine& on_line, bool is_new) {
  if (Status found = look_for_files(); !found) return found;
  for (auto& [key, file] : files_) read_file(file, on_line, is_new);
  return {};
}

void LogFiles::finish(const OnLine& on_line) {
  for (auto& [key, file] : files_) {
    if (file.rest.empty()) continue;
    file.rest += '\n';
    take_lines(file, on_line);
  }
}

// Attempts come one after the other: those before the newest have all their files.
Status LogFiles::look_for_files() {
  std::error_code error;
  const std::uint64_t known = newest_attempt_;
  fs::directory_iterator next(job_.directory, error);
  for (; !error && next != fs::directory_iterator(); next.increment(error)) {
    const auto attempt = number_after<std::uint64_t>(next->path().filename(), "attempt_");
    if (!attempt || *attempt < known) continue;
    if (*attempt > known) read_events();
    newest_attempt_ = std::max(newest_attempt_, *attempt);
    look_for_ranks(*attempt, next->path());
  }
  if (error) return system_failure("cannot read " + job_.directory, error.value());
  return {};
}

void LogFiles::look_for_ranks(std::uint64_t attempt, const std::string& directory) {
  std::error_code error;
  fs::directory_iterator next(directory, error);
  for (; !error && next != fs::directory_iterator(); next.increment(error)) {
    const auto number = number_after<std::int32_t>(next->path().filename(), "rank_");
    if (!number) continue;
    for (const int stream : {1, 2}) {
      const auto key = std::tuple(attempt, Rank(*number), stream);
      if (files_.contains(key)) continue;
      LogSource source{attempt, Rank(*number), node_of(attempt, Rank(*number)), stream};
      if (!wanted_(source)) continue;
      LogStream found(next->path(), std::string(kStreams[stream - 1]));
      if (found.exists()) files_.emplace(key, File{source, std::move(found)});
    }
  }
}

void LogFiles::read_events() {
  const auto text = read_regular_file(job_.directory + "/events.jsonl", kEventsLimitBytes);
  if (!text) return;
  for (const std::string_view line : split(*text, '\n')) {
    if (line.find("\"workers_started\"") == std::string_view::npos) continue;
    try {
      const nlohmann::json event = parse_shallow_json(line, Fractions::kTaken);
      nodes_[whole_number<std::uint64_t>(event.at("attempt"))]
            [Rank(whole_number<std::int32_t>(event.at("rank")))] =
                NodeId(whole_number<std::int32_t>(event.at("node")));
    } catch (const nlohmann::json::exception&) {
      continue;  // a line that is being written
    }
  }
}

NodeId LogFiles::node_of(std::uint64_t attempt, Rank rank) const {
  if (const auto nodes = nodes_.find(attempt); nodes != nodes_.end()) {
    const auto after = nodes->second.upper_bound(rank);
    if (after != nodes->second.begin()) return std::prev(after)->second;
  }
  // As planned: an attempt that has only just begun, or was never started.
  for (const NodePlan& node : job_.nodes) {
    if (rank >= node.first_rank && rank.value() < node.first_rank.value() + node.worker_count)
      return node.node;
  }
  return NodeId(0);
}

void LogFiles::read_file(File& file, const OnLine& on_line, bool is_new) {
  const Status read = file.stream.read([&](std::string_view bytes, double written) {
    file.rest += bytes;
    if (!file.times) file.times.emplace(file.rest, written, local_);
    if (is_new) file.times->now_is(local_.now);
    take_lines(file, on_line);
  });
  if (!read && !std::exchange(file.failed, true)) on_problem_(read.error().message(), false);
  if (file.stream.has_gap() && !std::exchange(file.has_gap, true)) {
    on_problem_(fmt::format("rank {}, attempt {}: lines of {} are missing: --log-limit had them removed",
                            file.source.rank, file.source.attempt, kStreams[file.source.stream - 1]),
                true);
  }
}

void LogFiles::take_lines(File& file, const OnLine& on_line) {
  std::size_t at = 0;
  for (std::size_t end; (end = file.rest.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string_view line = std::string_view(file.rest).substr(at, end - at);
    on_line(file.source, line, file.times->of(line, local_));
  }
  file.rest.erase(0, at);
}

}  // namespace muster::launcher
