#include "launcher/core/job.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/base/check.h"

namespace muster::launcher {

namespace {

// Beyond the workers' grace: for the agent to reap, read what was written, and tell.
constexpr Duration kStopMargin = std::chrono::seconds(5);
constexpr Duration kLeaveLimit = std::chrono::seconds(5);
// A deadline noticed so late means that the launcher itself was stopped or starved: nobody could be heard
// meanwhile.
constexpr Duration kOverslept = std::chrono::seconds(1);

constexpr auto kIgnore = Reaction::kIgnore;

template <class Number>
void raise_to(std::optional<Number>& value, Number candidate) {
  value = std::max(value.value_or(candidate), candidate);
}

}  // namespace

Decisions Job::on(const Event& event, TimePoint now) {
  std::visit([this, now](const auto& what) { handle(what, now); }, event);
  return std::exchange(decisions_, {});
}

std::optional<TimePoint> Job::next_deadline() const {
  if (phase_ == Phase::kDone) return std::nullopt;
  std::optional<TimePoint> next = phase_deadline_;
  for (const Node& each : nodes_) {
    if (each.state != Node::State::kStarting && each.state != Node::State::kJoined) continue;
    const TimePoint silent = each.last_heard + from_ns(plan_.job.silence_limit_ns);
    if (!next || silent < *next) next = silent;
  }
  return next;
}

Reaction Job::reaction(Occurrence occurrence) const {
  return kReactions[static_cast<std::size_t>(occurrence)][static_cast<std::size_t>(phase_)];
}

// The occurrence itself has been noted by its handler.
void Job::react(Occurrence occurrence, TimePoint now) {
  switch (reaction(occurrence)) {
    case Reaction::kIgnore: break;
    case Reaction::kNote: advance(now); break;
    case Reaction::kStop: stop_workers(now); break;
    case Reaction::kHurry: hurry(now); break;
  }
}

void Job::handle(const Began&, TimePoint now) {
  gather(now);
}

void Job::handle(const AgentSaid& event, TimePoint now) {
  Node& from = node(event.node);
  if (from.state != Node::State::kStarting && from.state != Node::State::kJoined) return;
  from.last_heard = now;
  // A greeting belongs to no attempt; everything else that matters here does.
  if (!std::holds_alternative<wire::Hello>(event.message) && event.attempt != attempt_) return;
  std::visit([&](const auto& message) { hear(event.node, message, now); }, event.message);
}

void Job::hear(NodeId id, const wire::Hello&, TimePoint now) {
  if (node(id).state != Node::State::kStarting) return;
  node(id).state = Node::State::kJoined;
  decide(Send{id, wire::Welcome{id, plan_.job}}, "the agent greeted");
  react(Occurrence::kJoined, now);
}

void Job::hear(NodeId id, const wire::AttemptPrepared& prepared, TimePoint now) {
  if (reaction(Occurrence::kPrepared) == kIgnore) return;
  node(id).prepared = true;
  if (id == plan_.nodes.front().node) store_port_ = prepared.store_port;
  react(Occurrence::kPrepared, now);
}

void Job::hear(NodeId id, const wire::AttemptRefused& refused, TimePoint now) {
  if (reaction(Occurrence::kRefused) == kIgnore) return;
  if (!facts_.refusal)
    facts_.refusal = Refusal{Refusal::Kind::kCannotStart, id, refused.exit_code, refused.message};
  react(Occurrence::kRefused, now);
}

void Job::hear(NodeId id, const wire::WorkerExited& exited, TimePoint now) {
  const bool seen = std::ranges::find(facts_.ends, exited.rank, &WorkerEnd::rank) != facts_.ends.end();
  if (reaction(Occurrence::kWorkerEnded) == kIgnore || seen || !owns(id, exited.rank)) return;
  WorkerEnd end{.rank = exited.rank,
                .node = id,
                .exit_code = exited.exit_code,
                .signal = exited.signal,
                .at = TimePoint(from_ns(exited.at_ns)),
                .after_stop = exited.after_stop,
                .message = message_of_error_file(exited.error_file),
                .last_lines = exited.last_lines};
  const bool failed = end.failed() && !end.after_stop;
  facts_.ends.push_back(std::move(end));
  react(failed ? Occurrence::kWorkerFailed : Occurrence::kWorkerEnded, now);
}

void Job::hear(NodeId id, const wire::WorkersGone&, TimePoint now) {
  if (reaction(Occurrence::kNodeEmptied) == kIgnore) return;
  node(id).has_workers = false;
  react(Occurrence::kNodeEmptied, now);
}

void Job::hear(NodeId id, const wire::WorkerReported& reported, TimePoint now) {
  if (history_.empty() || !owns(id, reported.rank)) return;
  AttemptHistory& current = history_.back();
  if (reported.kind == "step" || reported.kind == "heartbeat") raise_to(current.last_step, reported.step);
  if (reported.kind == "committed") raise_to(current.committed_step, reported.step);
  if (reported.kind == "resumed" && reported.rank == Rank(0)) {
    current.resumed_step = reported.step;
    const auto before = history_.size() > 1 ? history_[history_.size() - 2].last_step : std::nullopt;
    if (before) current.repeated_steps = std::max<std::int64_t>(0, *before - reported.step);
  }
  if (reported.kind != "fenced" || reaction(Occurrence::kFenced) == kIgnore) return;
  if (!facts_.refusal) facts_.refusal = Refusal{Refusal::Kind::kFenced, id, kExitInternal, reported.text};
  react(Occurrence::kFenced, now);
}

void Job::handle(const AgentEnded& event, TimePoint now) {
  lose(event.node, now, event.how, now);
}

void Job::lose(NodeId id, TimePoint at, std::string how, TimePoint now) {
  Node& lost = node(id);
  if (lost.state == Node::State::kAbsent || lost.state == Node::State::kLeft) return;
  // While leaving, agents are meant to end.
  const bool expected = phase_ == Phase::kLeaving || phase_ == Phase::kDone;
  lost = Node{.state = expected ? Node::State::kLeft : Node::State::kAbsent, .last_heard = {}};
  strays_ = true;
  if (!expected) facts_.losses.push_back({id, at, std::move(how)});
  react(Occurrence::kLost, now);
}

void Job::handle(const StraysEnded&, TimePoint now) {
  strays_ = false;
  react(Occurrence::kStraysEnded, now);
}

void Job::handle(const AttemptBegun& event, TimePoint now) {
  if (reaction(Occurrence::kBegun) == kIgnore) return;
  attempt_ = event.attempt;
  resume_step_ = event.resume_step;
  store_port_ = 0;
  history_.push_back({.attempt = attempt_,
                      .resumed_step = {},
                      .last_step = {},
                      .committed_step = {},
                      .repeated_steps = {},
                      .verdict = {}});
  facts_ = {};
  facts_.world_size = plan_.world_size();
  if (repeated_) decide(Tell{restart_text()}, "the attempt is a restart");
  phase_ = Phase::kPreparing;
  for (const NodePlan& each : plan_.nodes) {
    node(each.node).prepared = false;
    decide(
        Send{each.node, wire::PrepareAttempt{.restart_count = restart_count_,
                                             .node_count = static_cast<std::int32_t>(plan_.nodes.size()),
                                             .world_size = plan_.world_size(),
                                             .first_rank = each.first_rank,
                                             .local_world_size = each.worker_count,
                                             .host_store = each.first_rank == Rank(0),
                                             .store_address = "127.0.0.1",
                                             .agents_on_host = static_cast<std::int32_t>(plan_.nodes.size()),
                                             .agent_on_host = each.node.value()}},
        "every agent is there");
  }
  react(Occurrence::kBegun, now);
}

void Job::handle(const AttemptDenied& event, TimePoint now) {
  if (reaction(Occurrence::kDenied) == kIgnore) return;
  facts_.refusal = event.refusal;
  react(Occurrence::kDenied, now);
}

void Job::handle(const Interrupted& event, TimePoint now) {
  // A job that has its verdict keeps it.
  if (phase_ < Phase::kStopping) facts_.interrupted_by = event.signal;
  if (phase_ == Phase::kStopping && !facts_.interrupted_by && !restart_forbidden_by_) {
    // The workers are already being stopped for another reason, which stands.
    restart_forbidden_by_ = event.signal;
    return;
  }
  react(Occurrence::kInterrupted, now);
}

void Job::handle(const TimePassed&, TimePoint now) {
  const auto due = next_deadline();
  if (!due || *due > now) return;
  if (now - *due > kOverslept) {
    for (Node& each : nodes_) each.last_heard = std::max(each.last_heard, now);
  }
  for (const NodePlan& each : plan_.nodes) {
    const Node& quiet = node(each.node);
    const bool alive = quiet.state == Node::State::kStarting || quiet.state == Node::State::kJoined;
    const Duration limit = from_ns(plan_.job.silence_limit_ns);
    if (!alive || quiet.last_heard + limit > now) continue;
    const std::string how = fmt::format(
        "its agent {} for {:g} s", quiet.state == Node::State::kStarting ? "did not appear" : "was silent",
        std::chrono::duration_cast<Seconds>(limit).count());
    // Faults after the last sign of life may all be its doing, so it counts from there.
    kill_node(each.node, quiet.last_heard, how, now);
  }
  if (phase_deadline_ && *phase_deadline_ <= now) kill_late_nodes(now);
}

// Its processes may live a little longer: the phase does not end before they have.
void Job::kill_node(NodeId id, TimePoint at, const std::string& how, TimePoint now) {
  decide(KillAgent{id}, how);
  lose(id, at, how, now);
}

void Job::kill_late_nodes(TimePoint now) {
  phase_deadline_.reset();
  for (const NodePlan& each : plan_.nodes) {
    const Node& late = node(each.node);
    if (late.state != Node::State::kStarting && late.state != Node::State::kJoined) continue;
    if (phase_ == Phase::kLeaving || late.has_workers)
      kill_node(each.node, now, "its agent did not finish in time", now);
  }
}

// Goes on if what the phase waits for is complete.
void Job::advance(TimePoint now) {
  switch (phase_) {
    case Phase::kGathering:
      if (!all_in(Node::State::kJoined)) return;
      phase_ = Phase::kBeginning;
      decide(BeginAttempt{restart_count_}, "every agent is there");
      return;
    case Phase::kPreparing:
      if (std::ranges::all_of(nodes_, &Node::prepared)) start_workers();
      return;
    case Phase::kRunning:
    case Phase::kStopping:
      if (!any_workers() && !strays_) conclude(now);
      return;
    case Phase::kLeaving:
      if (!all_in(Node::State::kLeft) || strays_) return;
      phase_ = Phase::kDone;
      phase_deadline_.reset();
      decide(Finish{}, "nothing of the job is left");
      return;
    case Phase::kBeginning:
    case Phase::kDone: return;
  }
}

void Job::gather(TimePoint now) {
  phase_ = Phase::kGathering;
  phase_deadline_.reset();
  for (const NodePlan& each : plan_.nodes) {
    Node& absent = node(each.node);
    if (absent.state != Node::State::kAbsent) continue;
    absent = Node{.state = Node::State::kStarting, .last_heard = now};
    decide(StartAgent{each.node}, "the node has no agent");
  }
  advance(now);
}

void Job::start_workers() {
  phase_ = Phase::kRunning;
  facts_.started = true;
  for (const NodePlan& each : plan_.nodes) {
    node(each.node).has_workers = true;
    decide(Send{each.node, wire::StartWorkers{"127.0.0.1", store_port_, resume_step_}},
           "every node is prepared");
  }
}

void Job::stop_workers(TimePoint now) {
  phase_ = Phase::kStopping;
  const Duration grace = from_ns(plan_.job.grace_ns);
  phase_deadline_ = now + grace + kStopMargin;
  for (const NodePlan& each : plan_.nodes) {
    if (node(each.node).has_workers) {
      decide(Send{each.node, wire::StopWorkers{SIGTERM, plan_.job.grace_ns}},
             "the attempt cannot succeed any more");
    }
  }
  advance(now);
}

void Job::hurry(TimePoint now) {
  if (phase_ == Phase::kLeaving) return kill_late_nodes(now);
  phase_deadline_ = now + kStopMargin;
  for (const NodePlan& each : plan_.nodes) {
    if (node(each.node).has_workers)
      decide(Send{each.node, wire::StopWorkers{SIGKILL, 0}}, "the user asked twice");
  }
}

// The last worker of the attempt is gone.
void Job::conclude(TimePoint now) {
  facts_.world_size = plan_.world_size();
  verdict_ = judge(facts_);
  if (!history_.empty() && !history_.back().verdict) history_.back().verdict = verdict_;
  const bool may_restart = verdict_.restart_may_help() && restart_count_ < plan_.job.max_restarts;
  if (may_restart && !restart_forbidden_by_) return restart(now);
  if (may_restart) verdict_ = stopped_after(verdict_, *restart_forbidden_by_);
  const bool cut_short =
      verdict_.kind == Verdict::Kind::kRefused || verdict_.kind == Verdict::Kind::kInterrupted;
  if (repeated_ && cut_short && !attempt_ran()) verdict_ = ended_after(*repeated_, verdict_);
  leave(now);
}

// A worker that cannot be executed keeps the attempt from running; one that is fenced has run.
bool Job::attempt_ran() const {
  return facts_.started && !(facts_.refusal && facts_.refusal->kind == Refusal::Kind::kCannotStart);
}

void Job::restart(TimePoint now) {
  ++restart_count_;
  repeated_ = verdict_;
  if (const auto step = history_.empty() ? std::nullopt : history_.back().last_step)
    repeated_->cause += fmt::format(" at step {}", *step);
  facts_ = {};
  gather(now);
}

std::string Job::restart_text() const {
  const std::string from =
      resume_step_ ? fmt::format("resumes from step {}", *resume_step_) : "starts from the beginning";
  return fmt::format("{}; attempt {} {} (restart {} of {})", repeated_->cause, attempt_, from, restart_count_,
                     plan_.job.max_restarts);
}

void Job::leave(TimePoint now) {
  phase_ = Phase::kLeaving;
  phase_deadline_ = now + kLeaveLimit;
  for (const NodePlan& each : plan_.nodes) {
    Node& leaving = node(each.node);
    if (leaving.state == Node::State::kAbsent) leaving.state = Node::State::kLeft;
    if (leaving.state == Node::State::kJoined) decide(Send{each.node, wire::Leave{}}, "the job is over");
    if (leaving.state == Node::State::kStarting)
      kill_node(each.node, now, "the job is over before the agent joined", now);
  }
  advance(now);
}

bool Job::owns(NodeId id, Rank rank) const {
  const NodePlan& plan = plan_.nodes.at(static_cast<std::size_t>(id.value()));
  return rank >= plan.first_rank && rank.value() < plan.first_rank.value() + plan.worker_count;
}

bool Job::any_workers() const {
  return std::ranges::any_of(nodes_, &Node::has_workers);
}

bool Job::all_in(Node::State state) const {
  return std::ranges::all_of(nodes_, [state](const Node& each) { return each.state == state; });
}

std::string Job::waiting_for() const {
  std::string names;
  for (const NodePlan& each : plan_.nodes) {
    const Node& state = nodes_.at(static_cast<std::size_t>(each.node.value()));
    if (phase_ == Phase::kPreparing ? state.prepared : state.state == Node::State::kJoined) continue;
    names += fmt::format("{}node{}", names.empty() ? "" : ", ", each.node);
  }
  if (names.empty()) return "";
  return phase_ == Phase::kPreparing ? fmt::format("waiting for {} to prepare the attempt", names)
                                     : fmt::format("waiting for the agent of {}", names);
}

}  // namespace muster::launcher
