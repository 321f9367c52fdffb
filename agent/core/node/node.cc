#include "agent/core/node/node.h"

#include <algorithm>
#include <csignal>
#include <fmt/core.h>
#include <utility>

#include "common/base/check.h"
#include "common/base/earliest.h"

namespace muster::agent {

namespace {

constexpr int kExitLauncherGone = 1;
constexpr std::int32_t kMaxLocalWorldSize = 4096;

// A store on the same host is always reachable, so Node does not check it.
bool is_on_this_host(const std::string& address) {
  return address.empty() || address.starts_with("127.") || address == "::1";
}

std::size_t index_of(LocalRank local_rank) {
  return static_cast<std::size_t>(local_rank.value());
}

}  // namespace

Actions Node::on(const Event& event, TimePoint now) {
  if (phase_ == Phase::kLeft) return {};
  std::visit([this, now](const auto& what) { handle(what, now); }, event);
  return std::exchange(actions_, {});
}

std::optional<TimePoint> Node::next_deadline() const {
  if (phase_ == Phase::kLeft) return std::nullopt;
  std::optional<TimePoint> next = kill_at_;
  for (const auto& other : {terminate_at_, unkillable_at_, clear_again_at_, give_up_at_, reach_until_,
                            gpus_until_, look_at_gpus_at_, launcher_deadline()}) {
    take_earlier(next, other);
  }
  return next;
}

// Returns the time at which the agent stops waiting for its launcher. If a job runs, that is the end of the
// controller grace. This grace begins when the connection closes, or when the silence limit has passed.
std::optional<TimePoint> Node::launcher_deadline() const {
  if (leaving_) return logs_first_ || memory_first_ ? std::optional(heard_ + silence_limit()) : std::nullopt;
  if (!job_) return heard_ + kWelcomeLimit;
  const Duration silence = closed_ ? Duration::zero() : silence_limit();
  return heard_ + silence + job_->limits.controller_grace;
}

void Node::handle(const Welcomed& event, TimePoint) {
  job_ = event.job;
}

void Node::handle(const AttemptRequested& event, TimePoint now) {
  if (!job_ || leaving_ || event.attempt <= attempt_) return;
  switch (phase_) {
    case Phase::kIdle: open(event); break;
    case Phase::kPrepared:
    case Phase::kWarming:
      attempt_is_over();
      open(event);
      break;
    case Phase::kStarting:
    case Phase::kRunning:
    case Phase::kClearing:
      // Two attempts never run at the same time. So the workers of the older one are killed at once, without
      // a grace.
      waiting_ = event;
      kill_workers(now);
      break;
    case Phase::kOpening: CHECK(false, "attempt {} while {} is opened", event.attempt, attempt_); break;
    case Phase::kLeft: break;
  }
}

void Node::handle(const StandByRequested& event, TimePoint now) {
  const wire::StandBy& likely = event.likely;
  const bool possible = likely.local_world_size >= 1 && likely.local_world_size <= kMaxLocalWorldSize;
  if (!job_ || leaving_ || phase_ != Phase::kIdle || !possible) return;
  give_up_at_ = now + kTemplateLimit;
  wire::PrepareAttempt attempt;
  attempt.local_world_size = likely.local_world_size;
  attempt.agents_on_host = likely.agents_on_host;
  attempt.agent_on_host = likely.agent_on_host;
  actions_.emplace_back(LoadTemplate{std::move(attempt)});
}

void Node::send(wire::ToLauncher message) {
  actions_.emplace_back(Send{attempt_, std::move(message)});
}

void Node::open(const AttemptRequested& request) {
  attempt_ = request.attempt;
  plan_ = request.plan;
  leaves_unseen_ = false;
  if (plan_.local_world_size < 1 || plan_.local_world_size > kMaxLocalWorldSize) {
    send(wire::AttemptRefused{2, fmt::format("{} workers on one node (allowed: 1 to {})",
                                             plan_.local_world_size, kMaxLocalWorldSize)});
    return;
  }
  phase_ = Phase::kOpening;
  actions_.emplace_back(OpenAttempt{attempt_, plan_});
}

void Node::handle(const AttemptOpened& event, TimePoint now) {
  CHECK(phase_ == Phase::kOpening, "phase {}", static_cast<int>(phase_));
  phase_ = Phase::kPrepared;
  workers_.assign(static_cast<std::size_t>(plan_.local_world_size), Worker{});
  if (!event.template_loads) {
    give_up_at_.reset();
  } else if (!give_up_at_) {
    give_up_at_ = now + kTemplateLimit;
  }
  send(wire::AttemptPrepared{event.store_port, event.other_checkpoints, event.neighbour_port,
                             event.held_ranks});
  if (!event.gpus_may_be_full) return;
  gpus_until_ = now + kGpuMemoryLimit;
  check_gpus(now);
}

void Node::handle(const AttemptNotOpened& event, TimePoint) {
  CHECK(phase_ == Phase::kOpening, "phase {}", static_cast<int>(phase_));
  phase_ = Phase::kIdle;
  workers_.clear();
  actions_.emplace_back(CloseAttempt{});
  send(event.refusal);
}

void Node::handle(const StartRequested& event, TimePoint now) {
  if (phase_ != Phase::kPrepared || event.attempt != attempt_) return;
  start_ = event.start;
  phase_ = Phase::kWarming;
  if (!is_on_this_host(start_.master_address)) {
    reach_until_ = now + kReachLimit;
    actions_.emplace_back(ReachStore{start_});
  }
  start_if_ready();
}

void Node::start_if_ready() {
  if (phase_ == Phase::kWarming && !give_up_at_ && !gpus_until_ && !reach_until_) start_workers();
}

// If the store did not answer, the attempt is refused, because workers would wait for the store for minutes.
void Node::handle(const StoreAnswered& event, TimePoint) {
  if (!reach_until_) return;
  reach_until_.reset();
  if (event.why_not.empty()) return start_if_ready();
  attempt_is_over();
  send(wire::AttemptRefused{.message = fmt::format("the store at {} port {} cannot be reached: {}",
                                                   start_.master_address, start_.master_port, event.why_not),
                            .unreachable = true,
                            .no_answer = event.no_answer});
}

void Node::check_gpus(TimePoint now) {
  look_at_gpus_at_.reset();
  if (now < *gpus_until_) {
    look_at_gpus_at_ = now + kGpuMemoryPause;
    actions_.emplace_back(LookAtGpus{});
    return;
  }
  send(wire::AgentRemark{
      fmt::format("starting the workers although killed workers still seem to hold GPU memory{}{}",
                  gpus_held_.empty() ? "" : ": ", gpus_held_)});
  gpus_until_.reset();
  start_if_ready();
}

void Node::handle(const GpusLookedAt& event, TimePoint) {
  if (!gpus_until_ || !can_still_start()) return;
  if (!event.held.empty()) {
    if (std::exchange(gpus_held_, event.held).empty())
      send(wire::AgentRemark{fmt::format(
          "waiting up to {} s for the driver to free GPU memory of killed workers: {}",
          std::chrono::duration_cast<std::chrono::seconds>(kGpuMemoryLimit).count(), event.held)});
    return;
  }
  if (!std::exchange(gpus_held_, {}).empty())
    send(wire::AgentRemark{"the GPU memory of killed workers is free"});
  gpus_until_.reset();
  look_at_gpus_at_.reset();
  start_if_ready();
}

// The template is ready, or it is gone. In either case the ranks can start. If the template is gone, they are
// executed, because they cannot be forked.
void Node::handle(const TemplateSettled&, TimePoint) {
  give_up_at_.reset();
  start_if_ready();
}

void Node::start_workers() {
  phase_ = Phase::kStarting;
  has_failed_ = false;
  started_ = {};
  actions_.emplace_back(StartWorker{LocalRank(0), start_});
}

// A worker is started only after the one before it. So if the program cannot be executed, only one worker
// fails, and not all of them.
void Node::handle(const WorkerStarted& event, TimePoint) {
  CHECK(phase_ == Phase::kStarting, "phase {}", static_cast<int>(phase_));
  workers_.at(index_of(event.local_rank)).started(event.pid);
  started_.pids.push_back(event.pid);
  started_.warm_count += event.forked ? 1 : 0;
  if (started_.executed_because.empty()) started_.executed_because = event.executed_because;
  if (index_of(event.local_rank) + 1 < workers_.size()) {
    actions_.emplace_back(StartWorker{event.local_rank.next(), start_});
    return;
  }
  phase_ = Phase::kRunning;
  send(std::move(started_));
}

void Node::handle(const WorkerNotStarted& event, TimePoint now) {
  CHECK(phase_ == Phase::kStarting, "phase {}", static_cast<int>(phase_));
  workers_.at(index_of(event.local_rank)).on(WorkerEvent::kNotStarted);
  has_failed_ = true;
  phase_ = Phase::kRunning;
  send(event.refusal);
  kill_workers(now);
  clear_if_all_ended(now);
}

void Node::handle(const WorkerEnded& event, TimePoint now) {
  Worker& worker = workers_.at(index_of(event.local_rank));
  worker.on(WorkerEvent::kExited);
  has_failed_ = has_failed_ || event.exited.exit_code != 0 || event.exited.signal != 0;
  wire::WorkerExited exited = event.exited;
  exited.rank = rank_of(event.local_rank);
  exited.local_rank = event.local_rank;
  exited.pid = worker.pid();
  exited.after_stop = worker.stop_requested();
  send(std::move(exited));
  clear_if_all_ended(now);
}

void Node::handle(const StopRequested& event, TimePoint now) {
  if (event.attempt != attempt_) return;
  switch (phase_) {
    case Phase::kIdle: send(wire::WorkersGone{}); break;
    case Phase::kPrepared:
    case Phase::kWarming:
      attempt_is_over();
      send(wire::WorkersGone{});
      break;
    case Phase::kStarting:
    case Phase::kRunning: stop_workers(event.stop.signal, from_ns(event.stop.grace_ns), now); break;
    case Phase::kOpening:
    case Phase::kClearing:
    case Phase::kLeft: break;
  }
}

void Node::handle(const SignalRequested& event, TimePoint) {
  if (event.attempt != attempt_ || !workers_live()) return;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].running()) continue;
    actions_.emplace_back(
        SignalWorker{LocalRank(static_cast<std::int32_t>(i)), workers_[i].pid(), event.signal, true});
  }
}

void Node::handle(const LogsSent&, TimePoint) {
  logs_first_ = false;
  quit_if_left();
}

void Node::handle(const MemoryWritten& event, TimePoint) {
  if (!event.told.empty()) send(wire::AgentRemark{event.told, event.step});
  memory_first_ = false;
  quit_if_left();
}

void Node::handle(const LeaveRequested& event, TimePoint now) {
  logs_first_ = memory_first_ = event.launcher_waits && !closed_;
  leave(event.reason, 0, now);
}

void Node::handle(const LauncherHeard&, TimePoint now) {
  heard_ = now;
}

void Node::handle(const LauncherClosed&, TimePoint now) {
  closed_ = true;
  heard_ = now;
  logs_first_ = memory_first_ = false;
  // The controller grace is for running workers. If no worker is running, the agent leaves at once.
  if (!workers_live()) leave("the launcher is gone", kExitLauncherGone, now);
}

void Node::handle(const LeftoversGone&, TimePoint now) {
  if (phase_ != Phase::kClearing) return;
  unkillable_at_.reset();
  clear_again_at_.reset();
  attempt_is_over(std::ranges::none_of(workers_, &Worker::stop_requested));
  send(wire::WorkersGone{});
  if (closed_) leave("the launcher is gone", kExitLauncherGone, now);
  quit_if_left();
  if (phase_ == Phase::kIdle && waiting_) open(*std::exchange(waiting_, std::nullopt));
}

// All ranks have ended. If leftovers are still alive, they cannot be killed. Node does not wait for them any
// longer, but it still waits until the log files are written.
void Node::handle(const LeftoversNamed& event, TimePoint now) {
  if (phase_ != Phase::kClearing) return;
  send(wire::LeftoversUnkillable{event.left});
  leaves_unseen_ = event.left.empty();
  if (leaves_unseen_) {
    actions_.emplace_back(FinishLogs{});
    return;
  }
  clear_again_at_ = now + kClearPause;
  actions_.emplace_back(KillLeftovers{});
}

void Node::handle(const TimePassed& event, TimePoint now) {
  // The agent itself was stopped for a while. During that time messages of the launcher and of the store may
  // have arrived, and still wait in their sockets. So the time limits for both start anew.
  if (event.late > kOverslept) {
    if (!closed_) heard_ = now;
    if (reach_until_) reach_until_ = now + kReachLimit;
  }
  if (kill_at_ && *kill_at_ <= now) kill_workers(now);
  if (terminate_at_ && *terminate_at_ <= now) terminate_workers();
  if (unkillable_at_ && *unkillable_at_ <= now) name_unkillable(now);
  if (clear_again_at_ && *clear_again_at_ <= now) clear(now);
  if (give_up_at_ && *give_up_at_ <= now) give_up_template(now);
  if (reach_until_ && *reach_until_ <= now) {
    constexpr auto kSeconds = std::chrono::duration_cast<std::chrono::seconds>(kReachLimit).count();
    handle(StoreAnswered{fmt::format("no answer within {} s", kSeconds), true}, now);
  }
  if (gpus_until_ && (*gpus_until_ <= now || (look_at_gpus_at_ && *look_at_gpus_at_ <= now))) check_gpus(now);
  const auto until = launcher_deadline();
  if (!until || now < *until) return;
  logs_first_ = memory_first_ = false;
  leave(closed_ ? "the launcher is gone" : "the launcher is silent", kExitLauncherGone, now);
}

// Stops the attempt that is running. When the attempt has ended, the agent quits.
void Node::leave(std::string reason, int exit_code, TimePoint now) {
  waiting_.reset();
  if (!leaving_) leaving_ = Quit{exit_code, std::move(reason)};
  if (workers_live()) stop_workers(SIGTERM, job_ ? job_->limits.grace : Duration::zero(), now);
  if (can_still_start()) attempt_is_over();
  quit_if_left();
}

void Node::give_up_template(TimePoint now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(kTemplateLimit).count();
  actions_.emplace_back(GiveUpTemplate{fmt::format("it did not reach init() within {} s", seconds)});
  handle(TemplateSettled{}, now);
}

void Node::quit_if_left() {
  if (!leaving_ || phase_ != Phase::kIdle) return;
  write_memory_out();
  const bool is_written = !writes_memory_out_ || !memory_first_;
  if (!logs_first_ && is_written) quit();
}

// The ranks of a failed attempt may have a checkpoint in memory only. If no attempt follows, it would be
// lost. So this function has it written to disk, once. Call it when no attempt follows.
void Node::write_memory_out() {
  const bool holds_memory = job_ && job_->limits.memory_tier_bytes > 0;
  if (holds_memory && has_failed_ && !std::exchange(writes_memory_out_, true))
    actions_.emplace_back(WriteMemoryOut{});
}

void Node::quit() {
  write_memory_out();
  leaving_->leaves_processes = leaves_unseen_ || phase_ != Phase::kIdle;
  phase_ = Phase::kLeft;
  actions_.emplace_back(*leaving_);
}

void Node::stop_workers(std::int32_t signal, Duration grace, TimePoint now) {
  if (grace <= Duration::zero()) return kill_workers(now);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].on(WorkerEvent::kStopRequested) == WorkerEffect::kNone) continue;
    actions_.emplace_back(SignalWorker{LocalRank(static_cast<std::int32_t>(i)), workers_[i].pid(), signal});
  }
  // If there is a second stop, it can make the grace shorter, but not longer.
  if (!kill_at_ && signal != SIGTERM) terminate_at_ = now + grace - grace / kTermPart;
  kill_at_ = kill_at_ ? std::min(*kill_at_, now + grace) : now + grace;
}

void Node::terminate_workers() {
  terminate_at_.reset();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].stopping()) continue;
    actions_.emplace_back(SignalWorker{LocalRank(static_cast<std::int32_t>(i)), workers_[i].pid(), SIGTERM});
  }
}

void Node::kill_workers(TimePoint now) {
  terminate_at_.reset();
  kill_at_.reset();
  if (!unkillable_at_) unkillable_at_ = now + kUnkillableLimit;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].on(WorkerEvent::kKillRequested) == WorkerEffect::kNone) continue;
    actions_.emplace_back(SignalWorker{LocalRank(static_cast<std::int32_t>(i)), workers_[i].pid(), SIGKILL});
  }
}

void Node::name_unkillable(TimePoint now) {
  unkillable_at_.reset();
  if (phase_ == Phase::kClearing) return clear(now);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].ended()) continue;
    send(wire::WorkerUnkillable{
        rank_of(LocalRank(static_cast<std::int32_t>(i))), workers_[i].pid(),
        fmt::format("has not ended {} s after SIGKILL",
                    std::chrono::duration_cast<std::chrono::seconds>(kUnkillableLimit).count())});
  }
  if (leaving_) quit();  // the worker may never end, and the launcher would wait for this node
}

void Node::clear_if_all_ended(TimePoint now) {
  if (!std::ranges::all_of(workers_, &Worker::ended)) return;
  terminate_at_.reset();
  kill_at_.reset();
  unkillable_at_ = now + kUnkillableLimit;
  phase_ = Phase::kClearing;
  clear(now);
}

// Orders the agent to kill the leftovers. Node does this again after each kClearPause, because the agent does
// not notice the end of a process that is not its child. Once `unkillable_at_` has passed, it is empty. Then
// this function orders the agent to name the leftovers that are still alive, instead of killing them again.
void Node::clear(TimePoint now) {
  clear_again_at_.reset();
  if (!unkillable_at_) {
    actions_.emplace_back(NameLeftovers{});
    return;
  }
  clear_again_at_ = now + kClearPause;
  actions_.emplace_back(KillLeftovers{});
}

void Node::attempt_is_over(bool keep_store) {
  phase_ = Phase::kIdle;
  workers_.clear();
  reach_until_.reset();
  gpus_until_.reset();
  look_at_gpus_at_.reset();
  gpus_held_.clear();
  actions_.emplace_back(CloseAttempt{keep_store});
}

}  // namespace muster::agent
