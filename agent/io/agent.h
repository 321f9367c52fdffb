// The agent: performs Node's actions, and passes events to it.
//
// This class touches no process, file, socket or clock. It reaches them only through interfaces, so that the
// simulator can run the same class. It handles one event after the other: if an action causes an event, that
// event waits for its turn. There is one thread, and one alarm.
//
// Node decides about attempts and workers. Some work takes several calls of the agent's parts, so the agent
// does it without Node:
// - It kills leftovers, that is, processes that workers left behind. It goes on until the only ones left are
//   those that NameLeftovers has named. After that it has the log files finished. Only then does it send
//   LeftoversGone to Node.
// - When the workers have been told to end, or when the launcher is gone, it tells Link and Logs to hurry. It
//   does this once per attempt.
// - When the launcher says that output of other agents is waiting, the agent remembers this for a while.
#pragma once

#include <deque>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/core/health/worker_health.h"
#include "agent/core/health/worker_report.h"
#include "agent/core/node/node.h"
#include "agent/io/health/vitals.h"
#include "agent/io/link.h"
#include "agent/io/mpi/mpi_host.h"
#include "agent/io/output/logs.h"
#include "agent/io/store/store_host.h"
#include "agent/io/workers/processes.h"
#include "common/net/time.h"

namespace muster::agent {

class Agent final : private ProcessListener, private LogsListener, private MpiListener {
 public:
  // All parts must outlive the agent.
  struct Parts {
    net::Time& time;
    Link& link;
    Processes& processes;
    TemplateHost& templates;
    Leftovers& leftovers;
    WorkerTalk& talk;
    Vitals& vitals;
    Logs& logs;
    StoreHost& store;
    MpiHost& mpi;
    std::function<wire::HostChecked(const wire::CheckHost&)> look_at_host{};  // empty: CheckHost never comes
  };
  // `on_quit` is called once, when the agent quits, while the agent handles an event. After that call the
  // agent calls no function of `parts`.
  Agent(Parts parts, std::function<void(const Quit&)> on_quit);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Sends Hello and starts to handle orders.
  void start(const wire::Hello& hello);
  // Stops everything that runs, and quits.
  void leave(std::string reason);

 private:
  void hear(const Link::Incoming& incoming);
  void obey(Attempt attempt, const wire::Welcome& said);
  void obey(Attempt attempt, const wire::PrepareAttempt& plan);
  void obey(Attempt attempt, const wire::StartWorkers& orders);
  void obey(Attempt attempt, const wire::StopWorkers& stop);
  void obey(Attempt attempt, const wire::CheckHost& question);
  void obey(Attempt attempt, const wire::Leave& order);
  void obey(Attempt attempt, const wire::Ping& ping);
  void obey(Attempt attempt, const wire::DumpStacks& order);
  void obey(Attempt attempt, const wire::Preempt& notice);
  void obey(Attempt attempt, const wire::SignalWorkers& order);
  void obey(Attempt attempt, const wire::StandBy& standby);
  void obey(Attempt attempt, const wire::OutputTaken& taken);
  void obey(Attempt attempt, const wire::Input& input);
  void obey(Attempt attempt, const wire::LogTaken& taken);
  void obey(Attempt attempt, const wire::MpiTold& told);

  void worker_ended(LocalRank local_rank, wire::WorkerExited exited) override;
  void worker_reported(const Report& report, const std::string& address) override;
  void stacks_dumped(wire::WorkerStacks stacks) override;
  void input_taken(const wire::InputTaken& taken) override;
  void memory_written(MemoryWritten written) override;
  void template_settled() override;
  void leftover_ended(std::int32_t pid) override;
  void leftovers_changed() override;
  void logs_finished(const LogLosses& losses) override;
  void logs_sent() override;
  void mpi_asked(const wire::MpiAsked& asked) override;
  void mpi_aborted(LocalRank local_rank) override;

  void on(Event event);
  void set_alarm();
  void ring();
  void look_after_workers();
  void send_health(const WorkerHealth::Messages& messages, std::optional<Rank> ended = {});
  void send_reports(const std::vector<wire::WorkerReported>& reports);
  std::expected<std::int32_t, StartFailure> open(const OpenAttempt& attempt);
  // Returns the leftovers that an order NameLeftovers has not named yet. Returns nothing if the leftovers
  // cannot be listed.
  std::optional<std::vector<std::int32_t>> unnamed_leftovers();
  // `left`: unnamed_leftovers().
  void clear_leftovers(const std::optional<std::vector<std::int32_t>>& left);
  void finish_logs();
  bool output_waits() const;
  void hurry();

  void perform(const OpenAttempt& action);
  void perform(const LoadTemplate& action);
  void perform(const ReachStore& action);
  void perform(const StartWorker& action);
  void perform(const SignalWorker& action);
  void perform(const KillLeftovers& action);
  void perform(const NameLeftovers& action);
  void perform(const FinishLogs& action);
  void perform(const LookAtGpus& action);
  void perform(const WriteMemoryOut& action);
  void perform(const CloseAttempt& action);
  void perform(const GiveUpTemplate& action);
  void perform(const Send& action);
  void perform(const Quit& action);

  Parts parts_;
  std::function<void(const Quit&)> on_quit_;
  Node node_;
  Reports reports_;
  wire::JobSpec job_;
  std::optional<WorkerHealth> health_;  // of the open attempt
  bool told_blindness_ = false;         // WorkerHealth::told_blindness() of the attempts before
  bool clearing_ = false;               // leftovers are being killed
  bool finishing_logs_ = false;         // no leftover is alive, and the log files are being finished
  bool hurried_ = false;                // hurry() was called in this attempt
  TimePoint others_wait_until_;         // until then, other agents' workers may wait for their output
  // until then, the launcher's last report about waiting output is valid; empty before the first report
  std::optional<TimePoint> known_until_;
  std::set<std::int32_t> named_;  // leftovers that could not be killed
  std::deque<Event> events_;
  bool handling_ = false;
  std::unique_ptr<net::Alarm> alarm_;
  TimePoint alarm_at_{};
};

}  // namespace muster::agent
