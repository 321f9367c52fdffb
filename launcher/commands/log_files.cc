#include "launcher/commands/log_files.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/base/numbered.h"
#include "common/wire/json.h"

namespace muster::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kEventsLimitBytes = 256 << 20;
constexpr std::uint64_t kPieceBytes = 256 << 10;
constexpr std::string_view kStreams[] = {"stdout", "stderr"};

}  // namespace

LogFiles::LogFiles(JobRecord job, LocalTime local, Wanted wanted, OnProblem on_problem)
    : job_(std::move(job)), local_(local), wanted_(std::move(wanted)), on_problem_(std::move(on_problem)) {}

Status LogFiles::read(const OnLine& on_line, Reading reading) {
  if (Status found = look_for_files(); !found) return found;
  for (auto& [key, logs] : ranks_) {
    read_rank(logs, on_line, reading.is_new);
    if (!reading.is_last && key.first == newest_attempt_) continue;
    for (File& file : logs.files) {
      if (file.rest.empty()) continue;
      file.rest += '\n';
      take_lines(file, on_line);
    }
  }
  return {};
}

// Attempts run one after the other. So new files can only come in the newest attempt.
Status LogFiles::look_for_files() {
  const std::uint64_t known = newest_attempt_;
  const auto look = [&](std::uint64_t attempt, const fs::path& directory) {
    if (attempt < known) return;
    if (attempt > known) read_events();
    newest_attempt_ = std::max(newest_attempt_, attempt);
    look_for_ranks(attempt, directory);
  };
  if (const auto error = for_each_numbered<std::uint64_t>(job_.directory, "attempt_", look))
    return system_failure("cannot read " + job_.directory, error.value());
  return {};
}

void LogFiles::look_for_ranks(std::uint64_t attempt, const std::string& directory) {
  (void)for_each_numbered<std::int32_t>(directory, "rank_", [&](std::int32_t number, const fs::path& path) {
    const auto key = std::pair(attempt, Rank(number));
    const LogSource source{attempt, Rank(number), node_of(attempt, Rank(number)), 1};
    if (ranks_.contains(key) || !wanted_(source)) return;
    const auto file_of = [&](int stream) {
      LogSource its = source;
      its.stream = stream;
      return File{its, LogStream(path, std::string(kStreams[stream - 1]))};
    };
    RankLogs found{.order = LogStream(path, "order"), .files = {file_of(1), file_of(2)}};
    if (std::ranges::any_of(found.files, [](const File& file) { return file.stream.exists(); }))
      ranks_.emplace(key, std::move(found));
  });
}

void LogFiles::read_events() {
  const auto text = read_regular_file(job_.directory + "/events.jsonl", kEventsLimitBytes);
  if (!text) return;
  for (const std::string_view line : split(*text, '\n')) {
    if (line.find("\"workers_started\"") == std::string_view::npos) continue;
    try {
      started_.add(parse_shallow_json(line, Fractions::kTaken));
    } catch (const nlohmann::json::exception&) {
      continue;  // a line that is being written
    }
  }
}

NodeId LogFiles::node_of(std::uint64_t attempt, Rank rank) const {
  if (const auto* node = started_.find(attempt, rank)) return node->plan.node;
  // If no event says yet where the worker was started, or if it never was, the answer comes from the plan.
  const auto planned =
      std::ranges::find_if(job_.nodes, [rank](const NodePlan& node) { return node.has(rank); });
  return planned == job_.nodes.end() ? NodeId(0) : planned->node;
}

// order.log says in which order the bytes of the two streams were written. Each line of order.log names a
// stream and a number of bytes. First this function takes the bytes that order.log lists, in this order. Then
// it takes the remaining bytes of both streams. These are newer than order.log, or they are all bytes if
// order.log does not exist. For each stream, due_bytes is the sum of the listed numbers. So if some bytes are
// taken too early, or are missing, the order of later bytes is still right.
void LogFiles::read_rank(RankLogs& logs, const OnLine& on_line, bool is_new) {
  (void)logs.order.read([&](std::string_view bytes, double) { logs.order_rest += bytes; });
  std::size_t at = 0;
  for (std::size_t end; (end = logs.order_rest.find('\n', at)) != std::string::npos; at = end + 1) {
    const auto words = split(std::string_view(logs.order_rest).substr(at, end - at), ' ');
    const auto stream = parse_number<int>(words.front());
    const auto bytes = parse_number<std::uint64_t>(words.back());
    if (words.size() != 2 || !stream || !bytes || *stream < 1 || *stream > 2) continue;
    File& file = logs.files[static_cast<std::size_t>(*stream - 1)];
    file.due_bytes += *bytes;
    if (file.due_bytes > file.taken_bytes) take(file, file.due_bytes - file.taken_bytes, on_line, is_new);
  }
  logs.order_rest.erase(0, at);
  for (File& file : logs.files) take(file, UINT64_MAX, on_line, is_new);
}

void LogFiles::take(File& file, std::uint64_t bytes, const OnLine& on_line, bool is_new) {
  while (bytes > 0 && (file.unread_at < file.unread.size() || fill(file))) {
    const std::size_t size = std::min<std::uint64_t>(bytes, file.unread.size() - file.unread_at);
    file.rest.append(file.unread, file.unread_at, size);
    file.unread_at += size;
    file.taken_bytes += size;
    bytes -= size;
    if (is_new) file.times->now_is(local_.now);
    take_lines(file, on_line);
  }
}

// Reads the next piece of the file. Returns false if there is none.
bool LogFiles::fill(File& file) {
  file.unread.clear();
  file.unread_at = 0;
  const Status read = file.stream.read(
      [&](std::string_view bytes, double written) {
        file.unread += bytes;
        if (!file.times) file.times.emplace(file.unread, written, local_);
      },
      kPieceBytes);
  if (!read && !std::exchange(file.failed, true)) on_problem_(read.error().message(), false);
  if (file.stream.has_gap() && !std::exchange(file.has_gap, true)) {
    on_problem_(fmt::format("rank {}, attempt {}: lines of {} are missing: --log-limit removed them",
                            file.source.rank, file.source.attempt, kStreams[file.source.stream - 1]),
                true);
  }
  return !file.unread.empty();
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
