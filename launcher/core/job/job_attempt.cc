// The second part of Job: an attempt from gathering its agents to stopping its workers.
#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/core/job/job.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

using State = Roster::Agent::State;

// Beyond the workers' grace: for the agent to reap, read what was written, and tell.
constexpr Duration kStopMargin = std::chrono::seconds(5);
constexpr Duration kStacksLimit = std::chrono::seconds(2);

}  // namespace

// Goes on if what the phase waits for is complete.
void Job::advance(TimePoint now) {
  switch (phase_) {
    case Phase::kGathering: {
      if (now < not_before_) return;
      Placement placed = placement(now);
      if (placed.members.empty()) return;
      members_ = std::move(placed.members);
      phase_ = Phase::kBeginning;
      phase_deadline_.reset();
      return decide(BeginAttempt{restart_count_}, std::move(placed.reason));
    }
    case Phase::kPreparing:
      if (std::ranges::all_of(members_, [&](const NodePlan& each) { return roster_.at(each.node).prepared; }))
        start_workers(now);
      return;
    case Phase::kRunning:
    case Phase::kDumping:
    case Phase::kPreempting:
    case Phase::kStopping:
      if (!roster_.any_workers() && !strays_) return conclude(now);
      if (phase_ != Phase::kStopping && all_ranks_ended()) clear_up(now);
      return;
    case Phase::kLeaving:
      if (!roster_.all_left() || strays_) return;
      phase_ = Phase::kDone;
      phase_deadline_.reset();
      return decide(Finish{}, "nothing of the job is left");
    case Phase::kBeginning:
    case Phase::kDone: return;
  }
}

// Every rank has come to its end, and what they left is being killed, which takes milliseconds: an agent that
// is still at it when the limit has passed is as good as lost.
void Job::clear_up(TimePoint now) {
  phase_ = Phase::kStopping;
  kill_from_ = now;
  phase_deadline_ = now + kStopMargin;
  killed_late_ = false;
}

// Or its ranks' log files take what they printed, slowly: it says so as long as it waits for them.
void Job::hear(NodeId id, const wire::Pong& pong, TimePoint now) {
  if (phase_ != Phase::kStopping || killed_late_ || !all_ranks_ended()) return;
  if (pong.output_waits && roster_.at(id).has_workers)
    phase_deadline_ = std::max(phase_deadline_.value_or(now), now + kStopMargin);
}

Placement Job::placement(TimePoint now) const {
  return place(size_, roster_.status(members_, now), /*first=*/members_.empty());
}

// A new agent that this attempt does not wait for is started when its workers are: nothing may come before
// them.
void Job::gather(TimePoint now) {
  phase_ = Phase::kGathering;
  phase_deadline_.reset();
  if (not_before_ > now) {  // an agent that cannot start would end the back-off
    phase_deadline_ = not_before_;
    return;
  }
  advance(now);
  if (phase_ == Phase::kGathering) start_absent_agents(now);
}

// Those of nodes that were lost too often only if it cannot be done without.
void Job::start_absent_agents(TimePoint now) {
  for (const bool excluded : {false, true}) {
    if (excluded && roster_.alive_count() >= size_.min_nodes) break;
    for (const NodeId id : roster_.nodes()) {
      Roster::Agent& absent = roster_.at(id);
      if (absent.state != State::kAbsent || roster_.excluded(id, now) != excluded) continue;
      absent = Roster::Agent{.state = State::kStarting, .last_heard = now};
      decide(StartAgent{id}, "the node has no agent");
    }
  }
}

void Job::handle(const AttemptBegun& event, TimePoint now) {
  if (reaction(Occurrence::kBegun) == Reaction::kIgnore) return;
  attempt_ = event.attempt;
  resume_step_ = event.resume_step;
  store_port_ = 0;
  facts_ = {};
  facts_.world_size = members_.back().first_rank.value() + members_.back().worker_count;
  facts_.shrunk = facts_.world_size < plan_.world_size();
  stragglers_ = Stragglers(facts_.world_size);
  preemption_ = {};
  asked_for_stacks_ = looked_for_checkpoint_ = false;
  AttemptHistory history;
  history.attempt = attempt_;
  history.world_size = facts_.world_size;
  history.node_count = static_cast<std::int32_t>(members_.size());
  if (resume_step_) history.offered_step = static_cast<std::int64_t>(*resume_step_);
  history_.push_back(std::move(history));
  record("attempt_begun", resume_step_ ? fmt::format("resumes from step {}", *resume_step_) : "");
  if (repeated_) decide(Tell{restart_text(now)}, "the attempt is a restart");
  phase_ = Phase::kPreparing;
  std::int32_t position = 0;
  for (const NodePlan& each : members_) {
    roster_.at(each.node).prepared = false;
    decide(Send{each.node, wire::PrepareAttempt{.restart_count = restart_count_,
                                                .node_count = static_cast<std::int32_t>(members_.size()),
                                                .world_size = facts_.world_size,
                                                .first_rank = each.first_rank,
                                                .local_world_size = each.worker_count,
                                                .host_store = each.first_rank == Rank(0),
                                                .store_address = "127.0.0.1",
                                                .agents_on_host = static_cast<std::int32_t>(members_.size()),
                                                .agent_on_host = position++}},
           "it takes part in the attempt");
  }
  react(Occurrence::kBegun, now);
}

void Job::start_workers(TimePoint now) {
  phase_ = Phase::kRunning;
  facts_.started = now;
  for (const NodePlan& each : members_) {
    roster_.at(each.node).has_workers = true;
    decide(Send{each.node, wire::StartWorkers{"127.0.0.1", store_port_, resume_step_}},
           "every node is prepared");
  }
  for (const NodeId id : roster_.nodes()) stand_by(id);
  start_absent_agents(now);
}

// A spare, or a node that came too late, can then take part without loading the program first. Where its GPUs
// are known by number it is the last of its machine, as spares are.
void Job::stand_by(NodeId id) {
  const bool workers_start = phase_ == Phase::kRunning || phase_ == Phase::kDumping;
  if (plan_.job.warm == wire::Warm::kOff || !workers_start || member(id) != nullptr ||
      roster_.at(id).state != State::kJoined)
    return;
  const auto agents = static_cast<std::int32_t>(members_.size());
  decide(Send{id, wire::StandBy{size_.workers_per_node, agents, agents - 1}}, "it may be needed next");
}

void Job::ask_for_stacks(std::string reason) {
  asked_for_stacks_ = true;
  for (const NodeId node : roster_.nodes_with_workers()) decide(Send{node, wire::DumpStacks{}}, reason);
}

void Job::dump(TimePoint now) {
  phase_ = Phase::kDumping;
  phase_deadline_ = now + kStacksLimit;
  facts_.hangs = true;
  const Stall stall = facts_.hang.suspects().front();
  decide(Tell{fmt::format("rank {} (node{}) {}: the workers are stopped when their stacks have been written",
                          stall.rank, stall.node, stall.what)},
         "a worker hangs");
  ask_for_stacks("a worker hangs");
}

void Job::stop_workers(TimePoint now) {
  phase_ = Phase::kStopping;
  kill_from_ = now + plan_.job.limits.grace;
  phase_deadline_ = kill_from_ + kStopMargin;
  killed_late_ = false;
  const bool stopped = facts_.hangs && facts_.hang.suspects().front().stopped;
  for (const NodeId node : roster_.nodes_with_workers()) {
    // A process that is stopped would not hear TERM.
    if (stopped) decide(Send{node, wire::SignalWorkers{SIGCONT}}, "a worker is stopped");
    decide(Send{node, wire::StopWorkers{SIGTERM, to_ns(plan_.job.limits.grace)}},
           "the attempt cannot succeed any more");
  }
  if (facts_.interrupted_by) tell_wait(now);
  advance(now);
}

// For a user who has asked for the end and sees workers that take their time.
void Job::tell_wait(TimePoint now) {
  if (living_worker_count() == 0) return;
  decide(Tell{fmt::format("waiting for {} to end (grace {:g} s; Ctrl-C again to kill)",
                          count_of(living_worker_count(), "worker"),
                          in_seconds(std::max(Duration::zero(), kill_from_ - now)))},
         "the user asked for the end");
}

void Job::hurry(TimePoint now) {
  if (phase_ == Phase::kLeaving) return kill_late_nodes(now);
  kill_from_ = now;
  phase_deadline_ = now + kStopMargin;
  for (const NodeId node : roster_.nodes_with_workers())
    decide(Send{node, wire::StopWorkers{SIGKILL, 0}}, "the user asked twice");
  if (living_worker_count() > 0) {
    decide(Tell{fmt::format("killing {}; Ctrl-C again to leave at once",
                            count_of(living_worker_count(), "worker"))},
           "the user asked twice");
  }
}

std::string Job::restart_text(TimePoint now) const {
  const std::string from =
      resume_step_ ? fmt::format("resumes from step {}", *resume_step_) : "begins; no Muster checkpoint";
  std::string text = fmt::format("{}; attempt {} {} (restart {} of {})", repeated_->cause, attempt_, from,
                                 policy_.used(now), plan_.job.max_restarts);
  if (history_.size() > 1 && history_[history_.size() - 2].world_size != facts_.world_size)
    text += fmt::format(" with {} on {}", count_of(static_cast<std::size_t>(facts_.world_size), "rank"),
                        count_of(members_.size(), "node"));
  return text;
}

const NodePlan* Job::member(NodeId id) const {
  const auto found = std::ranges::find(members_, id, &NodePlan::node);
  return found == members_.end() ? nullptr : &*found;
}

bool Job::owns(NodeId id, Rank rank) const {
  const NodePlan* plan = member(id);
  return plan != nullptr && rank >= plan->first_rank &&
         rank.value() < plan->first_rank.value() + plan->worker_count;
}

std::size_t Job::living_worker_count() const {
  return static_cast<std::size_t>(facts_.world_size) - facts_.ends.size();
}

std::string Job::waiting_for(TimePoint now) const {
  std::vector<NodeId> missing;
  if (phase_ == Phase::kGathering && now >= not_before_) {
    for (const NodeId id : placement(now).needed) {
      if (roster_.at(id).state != State::kJoined) missing.push_back(id);
    }
  }
  if (phase_ == Phase::kPreparing) {
    for (const NodePlan& each : members_) {
      if (!roster_.at(each.node).prepared) missing.push_back(each.node);
    }
  }
  std::string names;
  for (const NodeId id : missing) names += fmt::format("{}node{}", names.empty() ? "" : ", ", id);
  if (names.empty()) return "";
  return phase_ == Phase::kPreparing ? fmt::format("waiting for {} to prepare the attempt", names)
                                     : fmt::format("waiting for the agent of {}", names);
}

}  // namespace muster::launcher
