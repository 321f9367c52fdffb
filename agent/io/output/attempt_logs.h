// Handles the output of one attempt's workers on this node. For each rank it owns the pipes, the log files
// and the copies for the terminal. It also owns the filtered copies, and keeps the error files.
//
// The pipes of a rank are made just before the rank starts. Its files are made once all workers run, or
// earlier if they are needed. The destructor closes everything. No function blocks. One thread.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "agent/core/start/environment.h"
#include "agent/io/link.h"
#include "agent/io/output/filtered_copy.h"
#include "agent/io/output/log_courier.h"
#include "agent/io/output/logs.h"
#include "agent/io/output/output.h"
#include "agent/io/output/terminal_copy.h"
#include "common/net/log_writer.h"
#include "common/net/task_group.h"

namespace muster::agent {

class AttemptLogs {
 public:
  struct Setting {
    asio::any_io_executor executor;
    net::TaskGroup& tasks;  // owns the tasks that read the outputs
    Link& link;             // for the copies for the terminal
    net::LogWriter& writer;
    wire::JobSpec job;
    wire::PrepareAttempt plan;
    NodeContext context;            // only the node and the attempt are used
    LogCourier* courier = nullptr;  // sends the rank's log files to the launcher; null: not needed
  };

  explicit AttemptLogs(Setting setting) : setting_(std::move(setting)) {}
  AttemptLogs(const AttemptLogs&) = delete;
  AttemptLogs& operator=(const AttemptLogs&) = delete;
  ~AttemptLogs();

  Attempt attempt() const { return setting_.context.attempt; }
  // Makes the attempt's log directory.
  Status make_log_directories() const;
  // Returns a line for the user about each file system that is nearly full.
  std::vector<std::string> low_disks() const;
  // Makes the pipes of this rank. Call this in the order of the ranks. Returns the ends of the pipes for the
  // worker's stdout and stderr. This object still owns them.
  Expected<std::array<int, 2>> open_streams(LocalRank local_rank);
  // Call this when the worker has its ends of the pipes.
  void worker_runs(LocalRank local_rank);
  // Call this once the worker has ended. All of the worker's output is passed on before this function
  // returns.
  Logs::LastWords last_words(LocalRank local_rank, bool failed);
  // Appends the report to the rank's file of metrics (wire::kMetricsFile), if the job is a trial of a sweep.
  // In the end last_words() appends whether the worker finished.
  void keep_metrics(LocalRank local_rank, const wire::WorkerReported& report);
  // Call this when the workers are being stopped. From then on they wait only briefly until their output is
  // taken.
  void hurry();
  // Returns whether a worker had to wait until its output was taken, at `now` or up to a second before.
  bool output_waits(TimePoint now) const { return now < *waited_at_ + kWaitsLinger; }
  // Call this when no process of the attempt is left. Reads the bytes that are still in the pipes. The log
  // files are closed once everything is written.
  void close_outputs();
  // Sends the trace files of the ranks to the launcher, if the launcher does not see this log directory. Call
  // this after close_outputs().
  void send_traces() const;
  // Call once the log files are closed.
  LogLosses losses() const;

 private:
  struct Stream {
    std::shared_ptr<TerminalCopy> copy;
    std::shared_ptr<Output> output;
  };
  using RankStreams = std::array<Stream, 2>;  // stdout, stderr

  Expected<Stream> open_stream(LocalRank local_rank, int stream, std::shared_ptr<net::LogBudget> budget,
                               std::shared_ptr<LogOrder> order);
  std::shared_ptr<FilteredCopy> filtered_copy(int stream, const net::LogWriter::Trouble& remark);
  std::vector<std::shared_ptr<Output>> outputs() const;
  void send_as(wire::LogFile file, Rank rank, std::shared_ptr<net::LogWriter::File> written) const;
  std::string keep_error_file(Rank rank) const;
  std::string directory_of(LocalRank local_rank) const;
  void keep_fact(LocalRank local_rank, const nlohmann::json& fact);
  Rank rank_of(LocalRank local_rank) const { return setting_.plan.rank_of(local_rank); }

  static constexpr Duration kWaitsLinger = std::chrono::seconds(1);

  Setting setting_;
  std::shared_ptr<bool> disk_told_ = std::make_shared<bool>(false);  // outputs can outlive this object
  std::shared_ptr<TimePoint> waited_at_ = std::make_shared<TimePoint>();
  std::array<std::shared_ptr<FilteredCopy>, 2> filtered_;               // stdout, stderr
  std::vector<RankStreams> ranks_;                                      // by local rank
  std::map<LocalRank, std::shared_ptr<net::LogWriter::File>> metrics_;  // of a trial's ranks
};

}  // namespace muster::agent
