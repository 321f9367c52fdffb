#include "tests/unit/cluster/simulated_agent.h"

#include "tests/invariants.h"

namespace muster::simulation {

using namespace std::chrono_literals;

template <class What>
auto SimulatedAgent::awake(What what) {
  return [weak = weak_from_this(), what = std::move(what)](auto... arguments) {
    const auto self = weak.lock();
    if (!self) return;
    if (self->stopped_) {
      self->waiting_.push_back([what, arguments...] { what(arguments...); });
    } else {
      what(arguments...);
    }
  };
}

SimulatedAgent::SimulatedAgent(Parts parts)
    : parts_(std::move(parts)),
      link_(parts_.to_launcher, parts_.node, wire::kLauncher),
      node_(parts_.timeline.now()),
      alarm_(parts_.timeline, [this] { awake([this] { on(agent::TimePassed{}); })(); }) {}

SimulatedAgent::~SimulatedAgent() {
  parts_.processes.set_parent(nullptr);
  parts_.from_launcher->forget_receiver();
}

void SimulatedAgent::start() {
  parts_.processes.set_parent(
      awake([this](std::int32_t pid, int exit_code, int signal) { worker_ended(pid, exit_code, signal); }));
  parts_.from_launcher->on_bytes = awake([this](const std::string& bytes) { hear(bytes); });
  parts_.from_launcher->on_end = awake([this] {
    link_.close();
    on(agent::LauncherClosed{});
  });
  parts_.timeline.after(parts_.timeline.between(1ms, 50ms), awake([this] {
                          link_.send(Attempt(), wire::Hello{parts_.node, 1, "host", "1", 1});
                          alarm_.set(node_.next_deadline());
                        }));
}

void SimulatedAgent::resume() {
  const auto self = shared_from_this();
  stopped_ = false;
  while (!waiting_.empty() && !stopped_) {
    const auto next = std::move(waiting_.front());
    waiting_.pop_front();
    next();
  }
}

void SimulatedAgent::hear(const std::string& bytes) {
  for (const auto& [attempt, message] : link_.receive(bytes)) {
    on(agent::LauncherHeard{});
    obey(attempt, message);
  }
}

void SimulatedAgent::obey(Attempt attempt, const wire::ToAgent& message) {
  if (const auto* ping = std::get_if<wire::Ping>(&message)) {
    link_.send(node_.attempt(), wire::Pong{ping->sent_ns, 0});
  } else if (const auto* welcome = std::get_if<wire::Welcome>(&message)) {
    welcomed_ = true;
    on(agent::Welcomed{welcome->job});
  } else if (const auto* plan = std::get_if<wire::PrepareAttempt>(&message)) {
    link_.advance_to(attempt);
    on(agent::AttemptRequested{attempt, *plan});
  } else if (const auto* standby = std::get_if<wire::StandBy>(&message)) {
    on(agent::StandByRequested{*standby});
  } else if (const auto* orders = std::get_if<wire::StartWorkers>(&message)) {
    on(agent::StartRequested{attempt, *orders});
  } else if (const auto* stop = std::get_if<wire::StopWorkers>(&message)) {
    on(agent::StopRequested{attempt, *stop});
  } else if (const auto* order = std::get_if<wire::SignalWorkers>(&message)) {
    on(agent::SignalRequested{attempt, order->signal});
  } else if (std::holds_alternative<wire::DumpStacks>(message)) {
    if (attempt == node_.attempt()) send_stacks();
  } else if (std::holds_alternative<wire::Preempt>(message)) {
    if (attempt == node_.attempt()) preempt();
  } else if (std::holds_alternative<wire::Leave>(message)) {
    on(agent::LeaveRequested{"the launcher said so"});
  }
}

void SimulatedAgent::on(agent::Event event) {
  events_.push_back(std::move(event));
  if (handling_) return;
  handling_ = true;
  while (!events_.empty()) {
    const agent::Event next = std::move(events_.front());
    events_.pop_front();
    for (const agent::Action& action : node_.on(next, parts_.timeline.now()))
      std::visit([this](const auto& what) { perform(what); }, action);
  }
  handling_ = false;
  alarm_.set(node_.next_deadline());
}

void SimulatedAgent::perform(const agent::OpenAttempt& action) {
  first_rank_ = action.plan.first_rank;
  worker_count_ = action.plan.local_world_size;
  workers_.clear();
  if (parts_.refuses(Step::kOpenAttempt, action.attempt))
    return on(agent::AttemptNotOpened{{.exit_code = 127, .message = "no such program"}});
  on(agent::AttemptOpened{1234});
}

// A worker that cannot be executed is the last one, so that others have to be killed for it.
void SimulatedAgent::perform(const agent::StartWorker& action) {
  const Attempt attempt = node_.attempt();
  invariants::attempts_do_not_overlap(parts_.node.value(), parts_.processes.living_count_but(attempt));
  if (action.local_rank.value() + 1 == worker_count_ && parts_.refuses(Step::kStartWorker, attempt))
    return on(agent::WorkerNotStarted{action.local_rank, {.exit_code = 126, .message = "wrong format"}});
  const Rank rank = rank_of(action.local_rank);
  const std::int32_t pid = parts_.processes.start_worker(attempt, rank);
  workers_[pid] = action.local_rank;
  on(agent::WorkerStarted{action.local_rank, pid});
  if (!parts_.preemptible) return;
  parts_.timeline.after(parts_.timeline.between(1ms, 100ms), awake([this, pid, rank] {
                          if (workers_.contains(pid)) report(rank, "hello", 0, "stacks preemption");
                        }));
}

void SimulatedAgent::perform(const agent::SignalWorker& action) {
  EXPECT_TRUE(workers_.contains(action.pid))
      << "a signal to process " << action.pid << ", which is no worker";
  parts_.processes.signal(action.pid, action.signal);
}

void SimulatedAgent::perform(const agent::KillLeftovers&) {
  parts_.processes.kill_leftovers(awake([this] { on(agent::LeftoversGone{}); }));
}

void SimulatedAgent::perform(const agent::Send& action) {
  link_.send(node_.attempt(), action.message);
}

void SimulatedAgent::perform(const agent::Quit& action) {
  invariants::nothing_is_left(parts_.processes.living_count());
  link_.close();
  parts_.on_quit(action.exit_code);
}

void SimulatedAgent::report(Rank rank, const std::string& kind, std::int64_t step, std::string text) {
  link_.send(node_.attempt(),
             wire::WorkerReported{rank, *wire::word_named<wire::ReportKind>(kind), step, std::move(text)});
}

void SimulatedAgent::worker_stalls(std::int32_t pid, bool stopped, std::int64_t step, Duration seen_after) {
  const TimePoint since = parts_.timeline.now();
  parts_.timeline.after(seen_after, awake([this, pid, stopped, step, since] {
                          const auto found = workers_.find(pid);
                          if (found == workers_.end()) return;
                          wire::WorkerStalled stalled;
                          stalled.rank = rank_of(found->second);
                          stalled.stopped = stopped;
                          stalled.hard = true;
                          stalled.what = "does not get on";
                          stalled.step = step;
                          stalled.since_ns = to_ns(since);
                          link_.send(node_.attempt(), stalled);
                        }));
}

// One in four does not answer.
void SimulatedAgent::send_stacks() {
  for (const auto& [pid, local_rank] : workers_) {
    if (parts_.timeline.one_in(4)) continue;
    const Rank rank = rank_of(local_rank);
    parts_.timeline.after(parts_.timeline.between(1ms, 200ms), awake([this, pid, rank] {
                            if (workers_.contains(pid))
                              link_.send(node_.attempt(), wire::WorkerStacks{rank, "main\n"});
                          }));
  }
}

// Rank 0 commits, and everybody leaves; one that hangs does not.
void SimulatedAgent::preempt() {
  for (const auto& [pid, local_rank] : workers_) {
    const Rank rank = rank_of(local_rank);
    parts_.timeline.after(parts_.timeline.between(100ms, 300ms), awake([this, pid, rank] {
                            if (!workers_.contains(pid) || parts_.processes.hangs(pid)) return;
                            if (rank == Rank(0)) report(rank, "saving", 7, "");
                            if (rank == Rank(0)) report(rank, "committed", 7, "");
                            report(rank, "preempted", 7, "");
                            parts_.processes.end_worker(pid, 75, 0);
                          }));
  }
}

void SimulatedAgent::worker_ended(std::int32_t pid, int exit_code, int signal) {
  const LocalRank local_rank = workers_.at(pid);
  workers_.erase(pid);
  wire::WorkerExited report;
  report.exit_code = exit_code;
  report.signal = signal;
  report.at_ns = to_ns(parts_.timeline.now());
  report.oom_kill_count = parts_.processes.killed_for_memory(pid) ? 1 : 0;
  on(agent::WorkerEnded{local_rank, std::move(report)});
}

}  // namespace muster::simulation
