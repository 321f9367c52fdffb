// What one attempt has open on this node: the program found, each rank's logs and pipes, the store; and
// starting its workers.
//
// open() does what tells whether the attempt can be made: the program, a place for logs, descriptors enough.
// The other ranks' pipes are made while the workers before them load their programs. Closing is destruction.
// Does not decide and does not wait. One thread.
#pragma once

#include <array>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/start/environment.h"
#include "agent/io/link.h"
#include "agent/io/output/filtered_copy.h"
#include "agent/io/output/output.h"
#include "agent/io/output/terminal_copy.h"
#include "agent/io/store/store_port.h"
#include "agent/io/store/store_server.h"
#include "agent/io/workers/process.h"
#include "agent/io/workers/warm_start.h"
#include "common/net/log_writer.h"
#include "common/net/task_group.h"

namespace muster::agent {

class AttemptRun {
 public:
  struct Setting {
    asio::io_context& io;
    net::TaskGroup& tasks;  // that read the outputs
    Link& link;             // where terminal copies go
    net::LogWriter& logs;
    wire::JobSpec job;
    NodeContext context;
    wire::PrepareAttempt plan;
    rlimit descriptor_limit;  // of the workers
  };
  template <class T>
  using OrRefused = std::expected<T, wire::AttemptRefused>;

  static OrRefused<std::unique_ptr<AttemptRun>> open(Setting setting);
  AttemptRun(const AttemptRun&) = delete;
  AttemptRun& operator=(const AttemptRun&) = delete;
  ~AttemptRun();

  std::optional<StoreServer> take_store() { return std::exchange(store_, std::nullopt); }
  std::int32_t store_port() const { return store_ ? store_->port() : worker_store_port_.number; }
  struct Started {
    Process process;
    bool forked = false;
    std::string executed_because;
    std::optional<std::uint32_t> gpu;  // that it takes by its number, in a job with GPUs
  };
  OrRefused<Started> start(LocalRank local_rank, const wire::StartWorkers& start, WarmStart& warm);
  // The template that this attempt's ranks can be forked from, or why there is none.
  std::expected<TemplateSpec, std::string> wanted_template() const;
  // The same for an attempt that may come.
  static std::expected<TemplateSpec, std::string> template_for(const wire::JobSpec& job,
                                                               const NodeContext& context,
                                                               const wire::PrepareAttempt& likely);
  // Once the worker has ended: what it printed last, what it left in its error file. Its output has been
  // passed on when this returns.
  wire::WorkerExited last_words(LocalRank local_rank);
  // The workers are to end: no output waits any more for who takes it slowly.
  void hurry();
  // Whether a worker had to wait for that at `now`, or within the last second.
  bool output_waits(TimePoint now) const { return now < *waited_at_ + kWaitsLinger; }
  // Nothing of the attempt is left: takes what is in the pipes, and closes the log files when all is written.
  void close_outputs();
  // To be told once the log files are closed: how much is missing in them. Empty: nothing that was not said.
  std::string losses() const;
  bool has_rank(Rank rank) const;
  Rank rank_of(LocalRank local_rank) const {
    return Rank(setting_.plan.first_rank.value() + local_rank.value());
  }

 private:
  struct Stream {
    std::shared_ptr<TerminalCopy> copy;
    std::shared_ptr<Output> output;
  };
  using RankStreams = std::array<Stream, 2>;  // stdout, stderr

  explicit AttemptRun(Setting setting) : setting_(std::move(setting)) {}
  OrRefused<Process> execute(std::vector<std::string> arguments, const Environment& own,
                             const std::array<int, 3>& streams);
  Status check_directory() const;
  Status open_null();
  Status check_descriptors() const;
  Status open_store();
  void check_space() const;
  Status make_log_directories() const;
  Status open_streams(LocalRank local_rank);
  Expected<Stream> open_stream(LocalRank local_rank, int stream, std::shared_ptr<net::LogBudget> budget,
                               std::shared_ptr<LogOrder> order);
  std::string directory_of(LocalRank local_rank) const;
  std::shared_ptr<FilteredCopy> filtered_copy(int stream, const net::LogWriter::Trouble& notice);
  std::vector<std::shared_ptr<Output>> outputs() const;
  std::string keep_error_file(Rank rank) const;

  static constexpr Duration kWaitsLinger = std::chrono::seconds(1);

  Setting setting_;
  std::string program_;
  Environment environment_;                                          // the last started rank's
  Command command_;                                                  // its, begun with what all ranks have
  std::shared_ptr<bool> disk_told_ = std::make_shared<bool>(false);  // outputs may outlive this
  std::shared_ptr<TimePoint> waited_at_ = std::make_shared<TimePoint>();
  std::array<std::shared_ptr<FilteredCopy>, 2> filtered_;  // stdout, stderr
  UniqueFd null_;
  std::optional<StoreServer> store_;  // when this agent hosts it
  StorePort worker_store_port_;       // when rank 0 does, on this node
  std::vector<RankStreams> ranks_;    // by local rank
};

}  // namespace muster::agent
