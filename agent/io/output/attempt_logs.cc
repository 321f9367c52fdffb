#include "agent/io/output/attempt_logs.h"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

#include "agent/core/output/disk_space.h"
#include "common/base/log.h"
#include "common/wire/json.h"
#include "common/wire/metric_name.h"

namespace muster::agent {

namespace {

constexpr Duration kLogsPause = std::chrono::milliseconds(50);
constexpr std::int64_t kMaxErrorFileBytes = 16 << 20;
constexpr std::size_t kMaxReportedBytes = 64 << 10;

// The worker can put anything at this path. A device or a pipe there must not block the agent.
std::string read_error_file(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status{};
  if (!fd || fstat(fd.get(), &status) < 0 || !S_ISREG(status.st_mode)) return {};
  std::string text(static_cast<std::size_t>(std::min(status.st_size, kMaxErrorFileBytes)), '\0');
  const ssize_t size = pread(fd.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

// Opens the log files of the streams, one after the other. Other work can run between two of them. First
// waits for kLogsPause, because the last workers are still loading their programs. If a stream has had output
// during this time, it already has its file.
awaitable<void> open_logs(std::vector<std::shared_ptr<Output>> outputs) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  boost::system::error_code cancelled;
  asio::steady_timer pause(executor, kLogsPause);
  co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  if (cancelled) co_return;
  for (const auto& output : outputs) {
    co_await asio::post(executor, asio::use_awaitable);
    output->prepare_log();
  }
}

}  // namespace

// Makes the directory of the attempt, and nothing else. This already shows whether the disk can be used. The
// directories and files of the ranks are made later: once all workers run, or when they are needed. To make
// them can take longer than to start the ranks, because ext4 skips every inode that was freed in the last
// minutes.
Status AttemptLogs::make_log_directories() const {
  const std::filesystem::path first = directory_of(LocalRank(0));
  if (Status made = make_directories(first.parent_path().string()); !made)
    return failure_within("cannot keep logs", std::move(made));
  return {};
}

std::vector<std::string> AttemptLogs::low_disks() const {
  if (setting_.plan.agent_on_host > 0) return {};  // another agent on this host reports it
  std::vector<std::string> found;
  const std::pair<const char*, const std::string&> directories[] = {
      {"the log directory", setting_.job.log_directory},
      {"the checkpoint directory", setting_.job.checkpoint_directory}};
  for (const auto& [what, directory] : directories) {
    struct statvfs disk{};
    if (directory.empty() || statvfs(directory.c_str(), &disk) != 0) continue;
    auto low = low_space(what, directory, {disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize});
    if (low) found.push_back(*std::move(low));
  }
  return found;
}

Expected<std::array<int, 2>> AttemptLogs::open_streams(LocalRank local_rank) {
  std::shared_ptr<net::LogBudget> budget;
  if (const std::int64_t limit = setting_.job.limits.log_limit_bytes; limit > 0)
    budget = std::make_shared<net::LogBudget>(static_cast<std::uint64_t>(limit));
  // The order file counts the bytes of both streams. If the logs have a size limit, the agent removes their
  // oldest parts, and the counts no longer fit. So it writes an order file only without a size limit.
  std::shared_ptr<LogOrder> order;
  if (!budget) {
    order = std::make_shared<LogOrder>(setting_.writer, directory_of(local_rank));
    send_as(wire::LogFile::kOrder, rank_of(local_rank), order->file());
  }
  auto standard = open_stream(local_rank, 1, budget, order);
  if (!standard) return std::unexpected(standard.error());
  auto error = open_stream(local_rank, 2, budget, order);
  if (!error) return std::unexpected(error.error());
  ranks_.push_back({*std::move(standard), *std::move(error)});
  const RankStreams& streams = ranks_.back();
  return std::array{streams[0].output->worker_end(), streams[1].output->worker_end()};
}

Expected<AttemptLogs::Stream> AttemptLogs::open_stream(LocalRank local_rank, int stream,
                                                       std::shared_ptr<net::LogBudget> budget,
                                                       std::shared_ptr<LogOrder> order) {
  const auto index = static_cast<std::size_t>(local_rank.value());
  const std::vector<std::int32_t>& redirects = setting_.job.redirects;
  const bool shown = index >= redirects.size() || (redirects[index] & stream) == 0;
  auto copy = std::make_shared<TerminalCopy>(
      setting_.link, TerminalCopy::Source{setting_.context.attempt, rank_of(local_rank), local_rank, stream},
      shown);
  // All logs are on the same file system, so one remark per attempt is enough for the user.
  const auto tell = [&link = setting_.link, attempt = setting_.context.attempt,
                     told = disk_told_](const std::string& line) {
    if (!std::exchange(*told, true)) link.send(attempt, wire::AgentRemark{line});
  };
  const auto filtered = filtered_copy(stream, tell);
  const auto lines = [copy, filtered,
                      prefix = fmt::format("node{}:{}: ", setting_.context.node, rank_of(local_rank))](
                         std::string_view text) {
    copy->lines(text);
    if (filtered) filtered->add(prefix, text);
  };
  auto output =
      Output::open(setting_.executor,
                   {.path = directory_of(local_rank) + (stream == 1 ? "/stdout.log" : "/stderr.log"),
                    .writer = setting_.writer,
                    .stream = stream,
                    .order = std::move(order),
                    .budget = std::move(budget),
                    .stall = setting_.job.limits.output_stall},
                   {.lines = lines,
                    .remark = tell,
                    .hold = [copy, filtered] { return copy->hold() || (filtered && filtered->hold()); },
                    .waits = [waited_at = waited_at_] { *waited_at = Clock::now(); }});
  if (!output) return std::unexpected(output.error());
  send_as(stream == 1 ? wire::LogFile::kStdout : wire::LogFile::kStderr, rank_of(local_rank),
          (*output)->log_file());
  return Stream{std::move(copy), *std::move(output)};
}

// Returns the filtered copy of this stream; all ranks share it. Returns null if the stream has no filters.
std::shared_ptr<FilteredCopy> AttemptLogs::filtered_copy(int stream, const net::LogWriter::Trouble& remark) {
  const wire::JobSpec& job = setting_.job;
  const std::vector<std::string>& texts = stream == 1 ? job.stdout_filters : job.stderr_filters;
  auto& copy = filtered_.at(static_cast<std::size_t>(stream - 1));
  if (!copy && !texts.empty()) {
    copy = std::make_shared<FilteredCopy>(
        FilteredCopy::File{.path = fmt::format("{}/attempt_{}/filtered_{}.log", job.log_directory,
                                               setting_.context.attempt, stream == 1 ? "stdout" : "stderr"),
                           .writer = setting_.writer,
                           .stall = job.limits.output_stall},
        texts, remark);
  }
  return copy;
}

void AttemptLogs::worker_runs(LocalRank local_rank) {
  for (const Stream& stream : ranks_.at(static_cast<std::size_t>(local_rank.value()))) {
    stream.output->worker_has_its_end();
    setting_.tasks.spawn(stream.output->read_all());
  }
  const bool last = local_rank.value() + 1 == setting_.plan.local_world_size;
  if (last) setting_.tasks.spawn(open_logs(outputs()));
}

Logs::LastWords AttemptLogs::last_words(LocalRank local_rank, bool failed) {
  RankStreams& streams = ranks_.at(static_cast<std::size_t>(local_rank.value()));
  for (Stream& stream : streams) {
    stream.output->finish();
    stream.copy->end();
  }
  keep_fact(local_rank, {{"finished", !failed}});
  Logs::LastWords words;
  if (failed) words.error_file = keep_error_file(rank_of(local_rank));
  const LastLines& errors = streams[1].output->last_lines();
  words.last_lines = errors.empty() ? streams[0].output->last_lines().lines() : errors.lines();
  return words;
}

std::string AttemptLogs::keep_error_file(Rank rank) const {
  const std::string left = error_file(setting_.job, setting_.context.attempt, rank);
  std::string text = read_error_file(left);
  if (text.empty()) return text;
  const std::string directory = rank_directory(setting_.job, setting_.context.attempt, rank);
  const auto file =
      setting_.writer.add(std::make_unique<net::LogParts>(directory + "/error.json", UniqueFd(), nullptr),
                          [](const std::string& what) { log::warning("{}", what); });
  file->put(text);
  file->close(left);
  send_as(wire::LogFile::kError, rank, file);
  text.resize(std::min(text.size(), kMaxReportedBytes));
  return text;
}

void AttemptLogs::send_as(wire::LogFile file, Rank rank,
                          std::shared_ptr<net::LogWriter::File> written) const {
  if (setting_.courier != nullptr)
    setting_.courier->add({setting_.context.attempt, rank, file}, std::move(written));
}

void AttemptLogs::send_traces() const {
  if (setting_.courier == nullptr || !setting_.job.trace) return;
  for (LocalRank local_rank; local_rank.value() < setting_.plan.local_world_size;
       local_rank = local_rank.next()) {
    const Rank rank = rank_of(local_rank);
    auto parts = std::make_unique<net::LogParts>(trace_file(setting_.context, setting_.job, rank), UniqueFd(),
                                                 nullptr);
    if (!parts->take_over()) continue;
    const auto file =
        setting_.writer.add(std::move(parts), [](const std::string& what) { log::warning("{}", what); });
    file->close();
    send_as(wire::LogFile::kTrace, rank, file);
  }
}

AttemptLogs::~AttemptLogs() {
  close_outputs();
  if (setting_.courier != nullptr) setting_.courier->attempt_ends(setting_.context.attempt);
}

void AttemptLogs::close_outputs() {
  for (RankStreams& streams : ranks_) {
    for (Stream& stream : streams) {
      stream.output->close();
      stream.copy->end();
    }
  }
}

void AttemptLogs::hurry() {
  for (const auto& output : outputs()) output->hurry();
  for (const auto& filtered : filtered_) {
    if (filtered) filtered->hurry();
  }
}

LogLosses AttemptLogs::losses() const {
  LogLosses all;
  for (const auto& output : outputs()) {
    const Output::Lost lost = output->lost();
    if (lost.bytes > 0) log::warning("{} bytes of {} were lost", lost.bytes, output->log_path());
    all.lines += lost.lines;
    all.waiting_bytes += lost.waiting_bytes;
  }
  for (const auto& filtered : filtered_) all.lines += filtered ? filtered->lost_lines() : 0;
  return all;
}

std::vector<std::shared_ptr<Output>> AttemptLogs::outputs() const {
  std::vector<std::shared_ptr<Output>> all;
  for (const RankStreams& streams : ranks_) {
    for (const Stream& stream : streams) all.push_back(stream.output);
  }
  return all;
}

void AttemptLogs::keep_metrics(LocalRank local_rank, const wire::WorkerReported& report) {
  nlohmann::json values;
  for (const auto& [name, value] : report.values) values[name] = fmt::format("{}", value);  // can be NaN
  keep_fact(local_rank, {{"step", report.step}, {"values", std::move(values)}});
}

void AttemptLogs::keep_fact(LocalRank local_rank, const nlohmann::json& fact) {
  if (!setting_.job.environment.contains(wire::kTrialVariable)) return;
  auto& file = metrics_[local_rank];
  if (!file)
    file = setting_.writer.add(std::make_unique<net::LogParts>(
                                   directory_of(local_rank) + "/" + wire::kMetricsFile, UniqueFd(), nullptr),
                               [](const std::string& what) { log::warning("{}", what); });
  file->put(fact.dump() + "\n");
}

std::string AttemptLogs::directory_of(LocalRank local_rank) const {
  return rank_directory(setting_.job, setting_.context.attempt, rank_of(local_rank));
}

}  // namespace muster::agent
