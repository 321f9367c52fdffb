#include "agent/io/output/local_logs.h"

#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "agent/io/shared_directory.h"
#include "common/base/file.h"
#include "common/base/home_directory.h"
#include "common/base/log.h"
#include "common/base/numbered.h"
#include "common/base/process.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

bool sees_nonce(const wire::JobSpec& job) {
  const auto is_its = [&job](const std::string& text) { return text == job.log_nonce; };
  return !job.log_nonce.empty() &&
         why_not_shared(job.log_directory, fmt::format("{}/{}", job.log_directory, wire::kLogNonceFile),
                        is_its)
             .empty();
}

}  // namespace

LocalLogs::~LocalLogs() {
  log::divert({});
}

LogPlace LocalLogs::place_for(const wire::JobSpec& job) {
  const auto usable = [](const std::string& directory) {
    return make_directories(directory) && access(directory.c_str(), W_OK | X_OK) == 0;
  };
  Environment own = own_environment();
  own["HOME"] = home_directory();
  LogPlace place = choose_log_place({.of_job = job.log_directory,
                                     .own = fallback_log_directory(own, job.job_id),
                                     .remote = setting_.remote,
                                     .nonce_given = !job.log_nonce.empty(),
                                     .nonce_seen = setting_.remote && sees_nonce(job)},
                                    usable);
  if (!place.shared && !courier_) {
    courier_ = std::make_shared<LogCourier>(setting_.link);
    setting_.tasks.spawn(courier_->run());
    // With a size limit, parts of the old logs may have been removed, and nobody knows which ones. So they
    // are not sent.
    if (setting_.started_again && job.limits.log_limit_bytes == 0) send_left_logs(place.directory);
  }
  return place;
}

// Sends the log files that an earlier agent has left on this host. The launcher knows which ones belong to
// this node, and how much of each it already has.
void LocalLogs::send_left_logs(const std::string& directory) {
  const auto send_rank = [this](std::uint32_t attempt, std::uint32_t rank,
                                const std::filesystem::path& path) {
    for (const auto& [file, name] : wire::Words<wire::LogFile>::kAll) {
      auto parts = std::make_unique<net::LogParts>(path / name, UniqueFd(), nullptr);
      if (!parts->take_over()) continue;
      courier_->add_left({Attempt(attempt), Rank(static_cast<std::int32_t>(rank)), file},
                         writer_.add(std::move(parts), [](const std::string&) {}));
    }
  };
  const auto send_attempt = [&](std::uint32_t attempt, const std::filesystem::path& path) {
    (void)for_each_numbered<std::uint32_t>(
        path, "rank_", [&](std::uint32_t rank, const auto& folder) { send_rank(attempt, rank, folder); });
  };
  (void)for_each_numbered<std::uint32_t>(directory, "attempt_", send_attempt);
}

Expected<std::vector<std::string>> LocalLogs::open(const wire::JobSpec& job, const OpenAttempt& attempt) {
  if (Status started = writer_.start(); !started) return std::unexpected(std::move(started).error());
  NodeContext context;
  context.node = setting_.node;
  context.attempt = attempt.attempt;
  attempt_ = std::make_shared<AttemptLogs>(AttemptLogs::Setting{setting_.executor, setting_.tasks,
                                                                setting_.link, writer_, job, attempt.plan,
                                                                std::move(context), courier_.get()});
  hurried_ = false;
  stall_ = job.limits.output_stall;
  if (Status made = attempt_->make_log_directories(); !made) return std::unexpected(std::move(made).error());
  return attempt_->low_disks();
}

Logs::LastWords LocalLogs::last_words(LocalRank local_rank, bool failed) {
  return attempt_->last_words(local_rank, failed);
}

bool LocalLogs::output_waits() const {
  return attempt_ != nullptr && attempt_->output_waits(Clock::now());
}

void LocalLogs::hurry() {
  hurried_ = true;
  if (attempt_ != nullptr) attempt_->hurry();
}

void LocalLogs::finish() {
  attempt_->close_outputs();
  attempt_->send_traces();
  setting_.tasks.spawn(wait_until_written(attempt_, stall_));
}

awaitable<void> LocalLogs::wait_until_written(std::shared_ptr<AttemptLogs> finished, Duration stall) {
  co_await writer_.written(stall, [this] { return hurried_; });
  // The writer posts its errors to the executor. The executor handles the posts in order. So all of the
  // writer's errors have been reported when this post returns.
  co_await asio::post(setting_.executor, asio::use_awaitable);
  if (attempt_ == finished) listener_->logs_finished(finished->losses());
}

void LocalLogs::taken(Attempt attempt, const wire::LogTaken& taken) {
  if (courier_) courier_->taken(attempt, taken);
}

bool LocalLogs::sent() {
  if (!courier_ || courier_->done()) return true;
  courier_->call_when_done([this] { listener_->logs_sent(); });
  return false;
}

void LocalLogs::close() {
  attempt_.reset();
}

void LocalLogs::divert_own_log() {
  struct stat status{};
  if (fstat(STDERR_FILENO, &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (const Status started = writer_.start(); !started) return log::error("{}", started.error().message());
  const auto file = writer_.add(
      std::make_unique<net::LogParts>(fmt::format("/proc/self/fd/{}", STDERR_FILENO), UniqueFd(), nullptr),
      [](const std::string&) {});
  log::divert([file](std::string_view line) {
    if (file->backlog_bytes() < Output::kLogQueueBytes) file->put(line);
  });
}

}  // namespace muster::agent
