#include "agent/io/agent.h"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <utility>

#include "common/base/earliest.h"
#include "common/base/log.h"

namespace muster::agent {

namespace {

// Once a second the launcher reports whether output waits on any node. Each report is valid for this long. If
// no new one has come by then, the agent has to assume that output may be waiting.
constexpr Duration kOthersWaitLinger = std::chrono::milliseconds(2500);
// One message names at most this many leftovers. If there are more, the agent neither names the others nor
// kills them again. Their next parent process has to deal with them.
constexpr std::size_t kMostLeftoversNamed = 1000;

}  // namespace

Agent::Agent(Parts parts, std::function<void(const Quit&)> on_quit)
    : parts_(parts),
      on_quit_(std::move(on_quit)),
      node_(parts_.time.now()),
      alarm_(parts_.time.make_alarm([this] { ring(); })) {}

void Agent::start(const wire::Hello& hello) {
  parts_.link.send(Attempt(), hello);
  // The calls below run while the launcher answers the Hello.
  parts_.processes.begin(*this);
  parts_.logs.begin(*this);
  parts_.mpi.begin(*this);
  parts_.link.start([this](const Link::Incoming& incoming) { hear(incoming); },
                    [this](const Error& why) {
                      log::debug("{}", why.message());
                      if (finishing_logs_) hurry();
                      on(LauncherClosed{});
                    });
  set_alarm();
}

void Agent::leave(std::string reason) {
  on(LeaveRequested{std::move(reason)});
}

void Agent::hear(const Link::Incoming& incoming) {
  on(LauncherHeard{});
  std::visit([this, attempt = incoming.attempt](const auto& said) { obey(attempt, said); }, incoming.message);
}

void Agent::obey(Attempt, const wire::Ping& ping) {
  const TimePoint now = parts_.time.now();
  if (ping.output_waits) others_wait_until_ = now + kOthersWaitLinger;
  known_until_ = now + kOthersWaitLinger;
  parts_.processes.look_at_input();
  const bool waits = finishing_logs_ || parts_.logs.output_waits();
  wire::Pong pong{ping.sent_ns, to_ns(now), waits};
  if (ping.usage && health_) pong.usage = parts_.vitals.usage(health_->workers());
  parts_.link.send(node_.attempt(), std::move(pong));
}

void Agent::obey(Attempt, const wire::OutputTaken& taken) {
  parts_.link.taken(taken);
}

void Agent::obey(Attempt attempt, const wire::Input& input) {
  if (attempt == node_.attempt()) parts_.processes.give_input(input);
}

void Agent::obey(Attempt attempt, const wire::Welcome& said) {
  job_ = said.job;
  LogPlace place = parts_.logs.place_for(said.job);
  if (!place.shared) parts_.link.send(attempt, wire::LogsElsewhere{place.directory});
  job_.log_directory = std::move(place.directory);
  parts_.link.set_output_limits(job_);
  parts_.processes.set_job(job_);
  on(Welcomed{job_});
}

void Agent::obey(Attempt attempt, const wire::LogTaken& taken) {
  parts_.logs.taken(attempt, taken);
}

void Agent::obey(Attempt attempt, const wire::MpiTold& told) {
  if (health_ && attempt == node_.attempt()) parts_.mpi.hear(told);
}

void Agent::obey(Attempt attempt, const wire::PrepareAttempt& plan) {
  parts_.link.advance_to(attempt);
  on(AttemptRequested{attempt, plan});
}

void Agent::obey(Attempt, const wire::StandBy& standby) {
  on(StandByRequested{standby});
}

void Agent::obey(Attempt attempt, const wire::StartWorkers& orders) {
  on(StartRequested{attempt, orders});
}

void Agent::obey(Attempt attempt, const wire::StopWorkers& stop) {
  if (attempt == node_.attempt()) hurry();
  on(StopRequested{attempt, stop});
}

void Agent::obey(Attempt attempt, const wire::SignalWorkers& order) {
  on(SignalRequested{attempt, order.signal});
}

void Agent::obey(Attempt attempt, const wire::DumpStacks&) {
  if (!health_) return;
  for (wire::ToLauncher& message : health_->stopped(parts_.time.now()))
    parts_.link.send(attempt, std::move(message));
  std::vector<WorkerTalk::Worker> workers;
  for (const auto& [rank, worker] : health_->workers())
    workers.push_back({rank, worker.pid, worker.writes_stacks ? worker.address : ""});
  parts_.talk.dump_stacks(workers);
}

void Agent::obey(Attempt, const wire::Preempt& notice) {
  if (!health_) return;
  for (const auto& [rank, worker] : health_->workers()) {
    if (worker.can_be_preempted && !parts_.talk.preempt(worker.address, from_ns(notice.grace_ns)))
      log::warning("rank {} does not read the notice of preemption", rank);
  }
  hurry();
}

void Agent::obey(Attempt attempt, const wire::CheckHost& question) {
  if (parts_.look_at_host) parts_.link.send(attempt, parts_.look_at_host(question));
}

void Agent::obey(Attempt, const wire::Leave&) {
  hurry();
  on(LeaveRequested{.reason = "the launcher told it to leave", .launcher_waits = true});
  if (parts_.logs.sent()) on(LogsSent{});
}

void Agent::logs_sent() {
  on(LogsSent{});
}

void Agent::worker_reported(const Report& report, const std::string& address) {
  if (!health_ || report.attempt != node_.attempt() || !node_.has_rank(report.message.rank)) return;
  const TimePoint now = parts_.time.now();
  health_->on(report, address, now);
  if (is_for_launcher(report)) {
    wire::WorkerReported message = report.message;
    if (output_waits()) message.busy_ns = 0;  // a rank that prints is not slow
    if (message.kind == wire::ReportKind::kMetric)
      parts_.logs.keep_metrics(node_.local_rank_of(message.rank), message);
    send_reports(reports_.on(message, now));
  }
  set_alarm();
}

void Agent::send_reports(const std::vector<wire::WorkerReported>& reports) {
  for (const wire::WorkerReported& report : reports) {
    if (reports_.admit(report, parts_.link.crowded())) parts_.link.send(node_.attempt(), report);
  }
}

void Agent::worker_ended(LocalRank local_rank, wire::WorkerExited exited) {
  if (!health_) return;  // the agent has left
  const Rank rank = node_.rank_of(local_rank);
  parts_.talk.receive_waiting();
  // If a worker was told to stop, it has not finished its work, even if its exit code is 0.
  const bool failed = exited.exit_code != 0 || exited.signal != 0 || node_.stop_requested(local_rank);
  Logs::LastWords words = parts_.logs.last_words(local_rank, failed);
  exited.error_file = std::move(words.error_file);
  exited.last_lines = std::move(words.last_lines);
  if (job_.mpi != wire::Mpi::kNone) exited.mpi_fault = parts_.mpi.fault_of(local_rank, exited);
  send_health(health_->on(parts_.vitals.take_gpu_faults(), TimePoint(from_ns(exited.at_ns))), rank);
  health_->ended(rank, exited);
  send_reports(reports_.take(rank));
  on(WorkerEnded{local_rank, std::move(exited)});
}

void Agent::stacks_dumped(wire::WorkerStacks stacks) {
  if (health_) parts_.link.send(node_.attempt(), std::move(stacks));
}

void Agent::input_taken(const wire::InputTaken& taken) {
  parts_.link.send(node_.attempt(), taken);
}

void Agent::mpi_asked(const wire::MpiAsked& asked) {
  parts_.link.send(node_.attempt(), asked);
}

void Agent::mpi_aborted(LocalRank local_rank) {
  if (!health_) return;
  const auto worker = health_->workers().find(node_.rank_of(local_rank));
  if (worker != health_->workers().end()) parts_.processes.signal(worker->second.pid, SIGKILL);
}

void Agent::memory_written(MemoryWritten written) {
  on(std::move(written));
}

void Agent::template_settled() {
  on(TemplateSettled{});
}

void Agent::on(Event event) {
  events_.push_back(std::move(event));
  if (handling_) return;
  handling_ = true;
  while (!events_.empty()) {
    const Event next = std::move(events_.front());
    events_.pop_front();
    for (const Action& action : node_.on(next, parts_.time.now())) {
      std::visit([this](const auto& what) { perform(what); }, action);
    }
  }
  handling_ = false;
  set_alarm();
}

void Agent::set_alarm() {
  auto next = node_.next_deadline();
  take_earlier(next, reports_.next_deadline());
  if (health_) take_earlier(next, health_->next_deadline());
  alarm_at_ = next.value_or(TimePoint::max());
  alarm_->set(next);
}

void Agent::ring() {
  const Duration late = parts_.time.now() - alarm_at_;
  send_reports(reports_.due(parts_.time.now()));
  look_after_workers();
  on(TimePassed{late});
}

void Agent::look_after_workers() {
  const auto due = health_ ? health_->next_deadline() : std::nullopt;
  if (!due || *due > parts_.time.now()) return;
  // Some reports may still wait in the socket. They may show that their workers make progress, so they come
  // first.
  parts_.talk.receive_waiting();
  const auto states = parts_.vitals.look(health_->pids());
  const TimePoint now = parts_.time.now();
  send_health(health_->on(parts_.vitals.take_gpu_faults(), now));
  send_health(health_->look(states, output_waits(), now));
  send_health(health_->on(parts_.vitals.look_at_threads(health_->threads_to_see(now)), now));
}

// Sends the messages. `ended` is the rank whose end is about to be reported. Its stalls are not sent, because
// the report of its end says more.
void Agent::send_health(const WorkerHealth::Messages& messages, std::optional<Rank> ended) {
  for (const wire::ToLauncher& message : messages) {
    if (const auto* stalled = std::get_if<wire::WorkerStalled>(&message)) {
      if (stalled->rank == ended) continue;
      log::warning("rank {} {}", stalled->rank, stalled->what);
    }
    parts_.link.send(node_.attempt(), message);
  }
}

// Returns whether some rank of the job may be waiting until its output is taken. Ranks of other nodes matter,
// too: in every step, all ranks wait for a rank that waits.
bool Agent::output_waits() const {
  const TimePoint now = parts_.time.now();
  const bool others_may_wait = now < others_wait_until_ || (known_until_ && now >= *known_until_);
  return others_may_wait || parts_.logs.output_waits();
}

// The workers have been told to end, or to save and leave. From now on they do not wait until their output is
// taken.
void Agent::hurry() {
  if (!health_ || std::exchange(hurried_, true)) return;
  parts_.link.set_hurry(true);
  parts_.logs.hurry();
}

void Agent::leftover_ended(std::int32_t pid) {
  named_.erase(pid);
}

void Agent::leftovers_changed() {
  if (clearing_) clear_leftovers(unnamed_leftovers());
}

std::optional<std::vector<std::int32_t>> Agent::unnamed_leftovers() {
  auto found = parts_.leftovers.find();
  if (found) std::erase_if(*found, [this](std::int32_t pid) { return named_.contains(pid); });
  return found;
}

void Agent::clear_leftovers(const std::optional<std::vector<std::int32_t>>& left) {
  // When a leftover dies, its children become leftovers. leftovers_changed() then calls this function again.
  clearing_ = !left || !left->empty();
  if (left) std::ranges::for_each(*left, [this](std::int32_t pid) { parts_.leftovers.kill(pid); });
  if (clearing_) return;
  finish_logs();
}

void Agent::finish_logs() {
  if (!health_) return on(LeftoversGone{});
  if (std::exchange(finishing_logs_, true)) return;
  parts_.logs.finish();
  if (parts_.link.closed()) hurry();
}

// The log files are complete, or they cannot be completed. With that the attempt is over on this node.
void Agent::logs_finished(const LogLosses& losses) {
  if (!std::exchange(finishing_logs_, false)) return;
  if (clearing_) return;  // a new leftover has appeared; this is called again when it is gone
  if (losses.lines + losses.waiting_bytes > 0) {
    parts_.link.send(
        node_.attempt(),
        wire::AgentRemark{fmt::format(
            "{1} lines were not written to the log files of attempt {0} in time{2}", node_.attempt(),
            losses.lines,
            losses.waiting_bytes == 0 ? ""
                                      : fmt::format("; {} bytes are still waiting", losses.waiting_bytes))});
  }
  on(LeftoversGone{});
}

void Agent::perform(const OpenAttempt& action) {
  const auto store_port = open(action);
  if (!store_port) return on(AttemptNotOpened{refusal(store_port.error(), job_)});
  hurried_ = false;
  parts_.link.set_hurry(false);
  health_.emplace(job_, told_blindness_);
  const bool gpus_may_be_full = parts_.vitals.held_gpu_memory() != "";
  Processes::MemoryTold memory = parts_.processes.memory_told();
  on(AttemptOpened{*store_port, parts_.templates.load(), gpus_may_be_full,
                   action.plan.same_checkpoints ? parts_.processes.other_checkpoints() : "", memory.port,
                   std::move(memory.ranks)});
}

std::expected<std::int32_t, StartFailure> Agent::open(const OpenAttempt& attempt) {
  if (job_.mpi != wire::Mpi::kNone) {
    if (auto served = parts_.mpi.open(job_, attempt); !served)
      return std::unexpected(std::move(served.error()));
  }
  if (auto opened = parts_.processes.open(attempt); !opened)
    return std::unexpected(std::move(opened.error()));
  const auto remarks = parts_.logs.open(job_, attempt);
  if (!remarks) return std::unexpected(StartFailure{StartStep::kLogDirectory, remarks.error()});
  auto store_port = parts_.store.open(job_, attempt.plan);
  if (!store_port) return std::unexpected(StartFailure{StartStep::kStore, store_port.error()});
  for (const std::string& remark : *remarks) parts_.link.send(attempt.attempt, wire::AgentRemark{remark});
  return *store_port;
}

void Agent::perform(const LoadTemplate& action) {
  if (!parts_.templates.load_for(action.likely)) on(TemplateSettled{});
}

void Agent::perform(const ReachStore& action) {
  parts_.store.reach(job_, action.start, [this](const Status& reached) {
    if (reached) return on(StoreAnswered{});
    on(StoreAnswered{reached.error().message(), reached.error().code() == ErrorCode::kTimedOut});
  });
}

void Agent::perform(const StartWorker& action) {
  const auto started = parts_.processes.start(action.local_rank, action.start);
  if (!started) return on(WorkerNotStarted{action.local_rank, refusal(started.error(), job_)});
  health_->started(node_.rank_of(action.local_rank), started->pid, started->gpu, parts_.time.now());
  on(WorkerStarted{action.local_rank, started->pid, started->forked, started->executed_because});
}

void Agent::perform(const SignalWorker& action) {
  log::info("signal {} to worker {}", action.signal, action.pid);
  if (!action.passed_on) {
    health_->told_to_stop(node_.rank_of(action.local_rank));
    hurry();
  }
  parts_.processes.signal(action.pid, action.signal);
}

void Agent::perform(const KillLeftovers&) {
  clear_leftovers(unnamed_leftovers());
}

void Agent::perform(const NameLeftovers&) {
  const auto left = unnamed_leftovers();
  // If no leftover is alive, the agent waits only for the log files. The limit for leftovers does not apply
  // to log files: the class Logs has its own limit for the time that it waits for log files.
  if (left && left->empty()) return clear_leftovers(left);
  LeftoversNamed answer;
  for (const std::int32_t pid : left.value_or(std::vector<std::int32_t>())) {
    named_.insert(pid);
    if (answer.left.size() == kMostLeftoversNamed) continue;
    answer.left.push_back(parts_.leftovers.kill_and_name(pid));
    log::warning("{}", describe(answer.left.back()));
  }
  on(std::move(answer));
}

void Agent::perform(const FinishLogs&) {
  clearing_ = false;
  finish_logs();
}

void Agent::perform(const LookAtGpus&) {
  if (auto held = parts_.vitals.held_gpu_memory()) on(GpusLookedAt{*std::move(held)});
}

void Agent::perform(const WriteMemoryOut&) {
  parts_.processes.write_memory_out();
}

void Agent::perform(const CloseAttempt& action) {
  parts_.processes.close();
  parts_.logs.close();
  parts_.store.close(action.keep_store);
  if (job_.mpi != wire::Mpi::kNone) parts_.mpi.close();
  clearing_ = false;
  finishing_logs_ = false;
  if (health_) told_blindness_ = health_->told_blindness();
  health_.reset();
  if (reports_.dropped_count() > 0)
    log::warning("{} reports of workers were dropped: the launcher did not keep up",
                 reports_.dropped_count());
  reports_ = {};
}

void Agent::perform(const GiveUpTemplate& action) {
  parts_.templates.give_up(action.reason);
}

void Agent::perform(const Send& action) {
  if (const auto* started = std::get_if<wire::WorkersStarted>(&action.message)) {
    if (started->warm_count > 0)
      log::info("{} of {} workers were forked", started->warm_count, started->pids.size());
    if (!started->executed_because.empty()) log::info("executed: {}", started->executed_because);
  }
  parts_.link.send(action.attempt, action.message);
}

void Agent::perform(const Quit& action) {
  log::info("leaving: {}", action.reason);
  parts_.templates.end();
  parts_.store.close(false);  // a store that listens would keep this process alive
  parts_.link.close();
  // From now on nothing watches the workers. One that could not be killed may still be there.
  health_.reset();
  reports_ = {};
  on_quit_(action);
}

}  // namespace muster::agent
