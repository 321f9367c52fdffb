// The agent: performs what Node decides, and tells it what happens.
//
// Events are handled one after the other, also those that an action brings about at once. One thread, one
// io_context, one alarm; run the io_context until it has nothing left to do, then ask for the exit code. Log
// files are written by another thread. Decides nothing.
#pragma once

#include <deque>
#include <memory>
#include <set>

#include "agent/core/health/worker_report.h"
#include "agent/core/node/node.h"
#include "agent/io/guardian.h"
#include "agent/io/health/gpu_memory_watch.h"
#include "agent/io/health/health.h"
#include "agent/io/link.h"
#include "agent/io/workers/attempt_run.h"
#include "agent/io/workers/warm_start.h"
#include "agent/io/workers/worker_socket.h"
#include "common/net/log_writer.h"
#include "common/net/task_group.h"
#include "common/net/time.h"

namespace muster::agent {

class Agent {
 public:
  // Blocks the signals that it wants to hear of, and raises the limit of descriptors, for this process and
  // not for its workers.
  Agent(asio::io_context& io, std::shared_ptr<net::Channel> channel, NodeId node);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  ~Agent();
  // Says Hello and begins to obey. Forks the guardian.
  void start();
  int exit_code() const { return exit_code_; }

 private:
  awaitable<void> hear_signals();
  awaitable<void> watch(LocalRank local_rank, Process process, std::optional<std::uint32_t> gpu);
  void hear(const Link::Incoming& incoming);
  void open_worker_socket();
  void divert_log();
  void welcome(const wire::Welcome& welcome);
  void pass_on(const Report& report, const std::string& sender);
  void send_reports(const std::vector<wire::WorkerReported>& reports);
  void send_all(const std::vector<wire::ToLauncher>& messages);
  void on(Event event);
  void set_alarm();
  void ring();
  void look_after_workers();
  void reap_all();
  NodeContext context(Attempt attempt) const;
  bool load_template(std::expected<TemplateSpec, std::string> wanted);
  // All children but those that belong here, and those that were named already; nothing if nobody can tell.
  std::optional<std::vector<pid_t>> strays() const;
  void kill_strays() const;
  void clear_leftovers();
  awaitable<void> finish_logs();
  bool output_waits() const;
  void hurry();

  void perform(const OpenAttempt& action);
  void perform(const LoadTemplate& action);
  void perform(const StartWorker& action);
  void perform(const SignalWorker& action);
  void perform(const KillLeftovers& action);
  void perform(const NameLeftovers& action);
  void perform(const LookAtGpus& action);
  void perform(const CloseAttempt& action);
  void perform(const GiveUpTemplate& action);
  void perform(const Send& action);
  void perform(const Quit& action);

  asio::io_context& io_;
  std::optional<Guardian> guardian_;  // from start() on; the last to go
  NodeId id_;
  rlimit worker_descriptor_limit_;
  net::SystemTime time_;
  Link link_;
  net::LogWriter logs_;
  net::TaskGroup tasks_;
  Node node_;
  Reports reports_;
  wire::JobSpec job_;
  WarmStart warm_;
  std::unique_ptr<WorkerSocket> socket_;        // from Welcome on
  std::unique_ptr<AttemptRun> run_;             // of the attempt at hand
  std::optional<StoreServer> finished_store_;   // of the attempt before
  std::unique_ptr<GpuWatch> gpus_;              // of a job with GPUs
  std::unique_ptr<GpuMemoryWatch> gpu_memory_;  // as well
  KilledOnGpus killed_on_gpus_;                 // in the attempt at hand
  std::optional<Health> health_;                // of its workers
  std::set<pid_t> workers_;                     // that have not been reaped
  bool clearing_ = false;                       // leftovers are being killed
  bool finishing_logs_ = false;                 // they are gone, and the log files are waited for
  bool hurried_ = false;                        // the attempt's workers are to end
  TimePoint others_wait_until_;                 // for their output, as the launcher last said
  std::set<pid_t> named_;                       // leftovers that could not be
  std::deque<Event> events_;
  bool handling_ = false;
  int exit_code_ = 0;
  std::unique_ptr<net::Alarm> alarm_;
};

}  // namespace muster::agent
