// Keeps the logs of this node's attempts, one attempt after the other. Also keeps the agent's own log.
//
// The thread of LogWriter writes the files. Call all functions on one other thread. Tasks of `tasks` wait for
// the files. If these tasks are canceled, the waits end.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "agent/io/output/attempt_logs.h"
#include "agent/io/output/log_courier.h"

namespace muster::agent {

class LocalLogs final : public Logs {
 public:
  struct Setting {
    asio::any_io_executor executor;
    net::TaskGroup& tasks;
    Link& link;
    NodeId node;
    bool remote = false;         // the launcher may have made the log directory on another host
    bool started_again = false;  // another agent of this node may have left logs here
  };
  explicit LocalLogs(Setting setting) : setting_(std::move(setting)), writer_(setting_.executor) {}
  LocalLogs(const LocalLogs&) = delete;
  LocalLogs& operator=(const LocalLogs&) = delete;
  ~LocalLogs() override;

  void begin(LogsListener& listener) override { listener_ = &listener; }
  LogPlace place_for(const wire::JobSpec& job) override;
  Expected<std::vector<std::string>> open(const wire::JobSpec& job, const OpenAttempt& attempt) override;
  LastWords last_words(LocalRank local_rank, bool failed) override;
  void keep_metrics(LocalRank local_rank, const wire::WorkerReported& report) override {
    attempt_->keep_metrics(local_rank, report);
  }
  bool output_waits() const override;
  void hurry() override;
  void finish() override;
  void taken(Attempt attempt, const wire::LogTaken& taken) override;
  bool sent() override;
  void close() override;

  // If stderr is not a regular file, this function does nothing. Otherwise it starts the writer's thread.
  // From then on, this thread writes the agent's own messages to stderr, so that a slow disk cannot block the
  // agent.
  void divert_own_log();
  // These functions are for LocalProcesses. It calls open_streams() just before a worker starts, and
  // worker_runs() when the worker runs.
  Expected<std::array<int, 2>> open_streams(LocalRank local_rank) {
    return attempt_->open_streams(local_rank);
  }
  void worker_runs(LocalRank local_rank) { attempt_->worker_runs(local_rank); }

 private:
  void send_left_logs(const std::string& directory);
  awaitable<void> wait_until_written(std::shared_ptr<AttemptLogs> finished, Duration stall);

  Setting setting_;
  net::LogWriter writer_;
  LogsListener* listener_ = nullptr;
  std::shared_ptr<AttemptLogs> attempt_;  // the open attempt; shared with the task that waits for its files
  std::shared_ptr<LogCourier> courier_;   // null if the launcher sees the log directory
  Duration stall_{};                      // of the job
  bool hurried_ = false;
};

}  // namespace muster::agent
