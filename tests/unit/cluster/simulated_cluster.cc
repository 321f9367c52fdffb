#include "tests/unit/cluster/simulated_cluster.h"

#include <algorithm>
#include <csignal>

namespace muster::simulation {

using namespace std::chrono_literals;
using invariants::Culprit;
using launcher::Phase;

namespace {

constexpr Duration kSurvivorLimit = 3s;

launcher::Plan plan_of(const Script& script) {
  launcher::Plan plan;
  for (int node = 0; node < script.node_count; ++node)
    plan.nodes.push_back({NodeId(node), Rank(node * script.workers_per_node), script.workers_per_node});
  if (script.min_nodes < script.node_count) plan.min_nodes = script.min_nodes;
  plan.spare_nodes = script.spare_nodes;
  plan.job.checkpoint_directory = "/checkpoints";
  plan.recovery.preemption_grace = SimulatedCluster::kPreemptionGrace;
  plan.job.max_restarts = script.max_restarts;
  plan.job.limits.grace = SimulatedCluster::kGrace;
  plan.job.limits.silence_limit = SimulatedCluster::kSilenceLimit;
  plan.job.limits.controller_grace = SimulatedCluster::kControllerGrace;
  return plan;
}

}  // namespace

Culprit blamed(const launcher::Verdict& verdict) {
  Culprit culprit;
  if (verdict.rank) culprit.rank = verdict.rank->value();
  if (verdict.node) culprit.node = verdict.node->value();
  return culprit;
}

SimulatedCluster::SimulatedCluster(Script script, std::uint64_t seed)
    : script_(std::move(script)),
      timeline_(seed),
      controller_(plan_of(script_), "1"),
      deadline_(timeline_, [this] { tell(launcher::TimePassed{}); }),
      second_(timeline_, [this] { ping(); }) {
  for (int node = 0; node < script_.node_count + script_.spare_nodes; ++node)
    machines_.push_back(std::make_unique<Machine>(timeline_, script_));
}

void SimulatedCluster::run(Duration limit) {
  timeline_.after(0s, [this] { tell(launcher::Began{}); });
  second_.set(timeline_.now() + 1s);
  for (const Duration time : script_.interrupts) {
    timeline_.after(time, [this] {
      last_fault_ = std::max(last_fault_, timeline_.now());
      ++interrupt_count_;
      tell(launcher::Interrupted{SIGINT});
      if (!restarts_when_interrupted_) restarts_when_interrupted_ = job_.restart_count();
    });
  }
  if (script_.notice) {
    timeline_.after(*script_.notice, [this] {
      last_fault_ = std::max(last_fault_, timeline_.now());
      tell(launcher::Interrupted{SIGTERM});
      if (!restarts_when_interrupted_) restarts_when_interrupted_ = job_.restart_count();
    });
  }
  if (script_.cancel) {
    timeline_.after(*script_.cancel, [this] {
      last_fault_ = std::max(last_fault_, timeline_.now());
      tell(launcher::Cancelled{script_.cancel_now});
      if (!restarts_when_interrupted_) restarts_when_interrupted_ = job_.restart_count();
    });
  }
  if (script_.launcher_dies) timeline_.after(*script_.launcher_dies, [this] { kill_launcher(); });
  timeline_.run([this] { return ended(); }, start_ + limit);
}

int SimulatedCluster::living_count() const {
  int count = 0;
  for (const auto& each : machines_) count += each->processes.living_count() + (each->agent ? 1 : 0);
  return count;
}

// ---- The launcher ----

void SimulatedCluster::tell(launcher::Event event) {
  if (launcher_dead_ || finished_) return;
  events_.push_back(std::move(event));
  if (handling_) return;
  handling_ = true;
  while (!events_.empty()) {
    const launcher::Event next = std::move(events_.front());
    events_.pop_front();
    const auto before = std::pair(job_.restart_count(), job_.phase() >= Phase::kLeaving);
    const std::set<NodeId> members = members_now();
    const auto decisions = controller_.on(next, timeline_.now());
    if (before != std::pair(job_.restart_count(), job_.phase() >= Phase::kLeaving)) judge(members);
    check_members();
    for (const launcher::Decision& decision : decisions)
      std::visit([this](const auto& action) { perform(action); }, decision.action);
    arm_faults();
  }
  handling_ = false;
  deadline_.set(controller_.next_deadline());
}

void SimulatedCluster::perform(const launcher::StartAgent& action) {
  const NodeId node = action.agent.node;
  Machine& home = machine(node);
  home.id = action.agent;
  EXPECT_TRUE(!home.agent && !home.guardian) << "node " << node.value() << " has an agent or its guardian";
  invariants::nothing_is_left(home.processes.living_count());
  home.to_agent = std::make_shared<Stream>(timeline_);
  home.to_launcher = std::make_shared<Stream>(timeline_);
  home.to_launcher->on_bytes = [this, node](const std::string& bytes) { hear(node, bytes); };
  home.to_launcher->on_end = [this, node] { link_ended(node); };
  home.known = true;
  home.session = std::make_unique<LauncherEnd>(home.to_agent, wire::kLauncher, node);
  home.agent = std::make_shared<SimulatedAgent>(SimulatedAgent::Parts{
      timeline_, home.processes, node, home.to_agent, home.to_launcher,
      [this, node](SimulatedAgent::Step step, Attempt attempt) { return refuses(node, step, attempt); },
      script_.preemptible, [this, node](int) { agent_is_gone(node); }});
  home.agent->start();
  home.session->send(Attempt(), wire::Ping{});
  tell(launcher::AgentConnected{home.id, connection_of(home.id)});
}

void SimulatedCluster::perform(const launcher::KillAgent& action) {
  Machine& doomed = machine(action.agent.node);
  if (job_.phase() < Phase::kLeaving)
    EXPECT_TRUE(truth_.touched(action.agent.node))
        << "a healthy agent is killed: node " << action.agent.node.value();
  truth_.noticed(action.agent.node);
  doomed.known = false;
  doomed.session.reset();
  doomed.to_launcher->forget_receiver();
  agent_is_gone(action.agent.node);
  strays_since_ = timeline_.now();
}

void SimulatedCluster::perform(const launcher::BeginAttempt& action) {
  timeline_.after(timeline_.between(0ms, 3ms), [this, action] {
    newest_begun_ = newest_begun_.next();
    tell(launcher::AttemptBegun{newest_begun_, std::nullopt, action.question});
  });
}

// What is committed is told, and nothing that is told is lost.
void SimulatedCluster::perform(const launcher::LookForCheckpoint& action) {
  tell(launcher::CheckpointFound{.question = action.question});
}

// Whoever asks three times does not want to wait.
void SimulatedCluster::perform(const launcher::Finish&) {
  constexpr std::size_t kLeaveAtOnce = 3;
  if (interrupt_count_ < kLeaveAtOnce) invariants::nothing_is_left(living_count());
  finished_ = true;
}

void SimulatedCluster::perform(const launcher::Send& action) {
  const auto& session = machine(action.node).session;
  if (!session) return;
  session->advance_to(job_.attempt());
  session->send(job_.attempt(), action.message);
}

void SimulatedCluster::hear(NodeId node, const std::string& bytes) {
  for (auto& [attempt, message] : machine(node).session->receive(bytes)) {
    const auto* reported = std::get_if<wire::WorkerReported>(&message);
    if (reported != nullptr && reported->kind == wire::ReportKind::kCommitted) ++commit_count_;
    const auto* left = std::get_if<wire::LeftoversUnkillable>(&message);
    if (left != nullptr) survivor_count_ += static_cast<int>(left->left.size());
    if (auto* hello = std::get_if<wire::Hello>(&message)) hello->incarnation = machine(node).id.incarnation;
    tell(launcher::AgentSaid{machine(node).id, attempt, std::move(message)});
  }
}

// All that the agent said has been heard. Without a connection it is of no use.
void SimulatedCluster::link_ended(NodeId node) {
  Machine& gone = machine(node);
  if (launcher_dead_ || !gone.known) return;
  gone.known = false;
  gone.session.reset();
  agent_is_gone(node);
  timeline_.after(timeline_.between(0ms, 20ms), [this, node, id = gone.id] {
    truth_.noticed(node);
    strays_since_ = timeline_.now();
    tell(launcher::ProcessEnded{id, "its agent ended"});
    tell(launcher::ConnectionClosed{id, connection_of(id)});
  });
}

void SimulatedCluster::perform(const launcher::LookForLeftovers& action) {
  const auto has_strays = [](const auto& each) {
    return !each->agent && (each->guardian || each->processes.living_count() > 0);
  };
  const auto has_survivors = [](const auto& each) {
    return !each->agent && each->processes.has_unnamed_survivors();
  };
  launcher::LeftoversSeen seen{.left = {}, .killed = action.kill};
  if (std::ranges::any_of(machines_, has_strays)) {
    seen.killed = false;
    seen.left.push_back({.pid = 1});
  } else if (std::ranges::any_of(machines_, has_survivors) &&
             timeline_.now() - strays_since_ <= kSurvivorLimit) {
    seen.left.push_back({.pid = 1});
  } else {
    for (const auto& each : machines_) {
      if (!has_survivors(each)) continue;
      for (Leftover& survivor : each->processes.name_survivors()) seen.left.push_back(std::move(survivor));
    }
  }
  tell(std::move(seen));
}

void SimulatedCluster::ping() {
  for (const auto& each : machines_) {
    if (each->session) each->session->send(Attempt(), wire::Ping{});
  }
  second_.set(timeline_.now() + 1s);
}

// ---- What happens to it ----

// Ended or killed: its guardian ends what it leaves a moment later, and the peers of that notice.
void SimulatedCluster::agent_is_gone(NodeId node) {
  Machine& home = machine(node);
  if (!std::exchange(home.agent, nullptr)) return;
  home.to_launcher->close();
  if (home.processes.living_count() == 0) return;
  home.guardian = true;
  peers_fail();
  timeline_.after(timeline_.between(1ms, 40ms), [&home] {
    home.processes.kill_all();
    home.guardian = false;
  });
}

void SimulatedCluster::arm_faults() {
  const auto here = std::pair(job_.attempt(), job_.phase());
  if (armed_ == here) return;
  armed_ = here;
  for (const Fault& fault : script_.faults) {
    if (std::pair(fault.attempt, fault.phase) != here) continue;
    timeline_.after(fault.after, [this, fault, here] {
      // What is meant for a recovery may come when that is over already.
      const bool in_time = here == std::pair(job_.attempt(), job_.phase());
      if (in_time || here.second == Phase::kStopping) inject(fault);
    });
  }
}

void SimulatedCluster::inject(const Fault& fault) {
  using enum Fault::Kind;
  Machine& home = machine(fault.node);
  if (launcher_dead_ || finished_ || !home.agent || !home.known) return;
  switch (fault.kind) {
    case kWorkerStalls:
    case kWorkerStopped:
    case kOutOfMemory:
    case kWorkerDies: {
      const auto workers = home.processes.living_workers(job_.attempt());
      if (workers.empty() || job_.phase() != Phase::kRunning) return;
      // An agent that is stopped tells late what it saw: nobody could know who was first.
      if (timeline_.now() < paused_until_) return;
      const auto [pid, rank] =
          workers[static_cast<std::size_t>(timeline_.below(static_cast<int>(workers.size())))];
      const bool stalls = fault.kind == kWorkerStalls || fault.kind == kWorkerStopped;
      if (stalls && home.processes.hangs(pid)) return;  // it waits for another already
      note(fault.kind, fault.node, rank);
      if (stalls) return worker_stalls(fault.node, pid, fault.kind == kWorkerStopped);
      if (fault.kind == kOutOfMemory) {
        home.processes.kill_for_memory(pid);
        return peers_fail();
      }
      const bool exits = timeline_.one_in(2);
      home.processes.end_worker(pid, exits ? 3 : 0, exits ? 0 : SIGKILL);
      return peers_fail();
    }
    case kAgentKilled: note(fault.kind, fault.node); return agent_is_gone(fault.node);
    case kAgentPauses: note(fault.kind, fault.node); return pause(fault.node, timeline_.between(50ms, 800ms));
    case kAgentFreezes: note(fault.kind, fault.node); return pause(fault.node, 5s);
    case kLinkCloses:
      note(fault.kind, fault.node);
      home.to_agent->close();
      return home.to_launcher->close();
    case kLinkFallsSilent:
      note(fault.kind, fault.node);
      home.to_agent->fall_silent();
      return home.to_launcher->fall_silent();
    case kAttemptRefused:
    case kExecutionRefused: return;
  }
}

// All others wait for it, and are seen to do so a little later.
void SimulatedCluster::worker_stalls(NodeId node, std::int32_t culprit, bool stopped) {
  constexpr std::int64_t kStep = 5;
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    const auto& home = machines_[i];
    for (const auto& [pid, rank] : home->processes.living_workers(job_.attempt())) {
      const bool first = static_cast<std::int32_t>(i) == node.value() && pid == culprit;
      home->processes.hang(pid);
      if (home->agent) {
        // One that is stopped is to blame wherever it is.
        const std::int64_t step = !first ? kStep : stopped ? kStep + 1 : kStep - 1;
        home->agent->worker_stalls(pid, first && stopped, step,
                                   first ? timeline_.between(100ms, 200ms) : timeline_.between(200ms, 400ms));
      }
    }
  }
}

void SimulatedCluster::pause(NodeId node, Duration length) {
  paused_until_ = timeline_.now() + length;
  last_fault_ = std::max(last_fault_, paused_until_);
  machine(node).agent->stop();
  timeline_.after(length, [weak = std::weak_ptr(machine(node).agent)] {
    if (const auto agent = weak.lock()) agent->resume();
  });
}

bool SimulatedCluster::refuses(NodeId node, SimulatedAgent::Step step, Attempt attempt) {
  const auto kind = step == SimulatedAgent::Step::kOpenAttempt ? Fault::Kind::kAttemptRefused
                                                               : Fault::Kind::kExecutionRefused;
  const bool refused = std::ranges::any_of(script_.faults, [&](const Fault& fault) {
    return fault.kind == kind && fault.attempt == attempt && fault.node == node;
  });
  if (refused) note(kind, node);
  return refused;
}

void SimulatedCluster::kill_launcher() {
  if (finished_) return;
  launcher_dead_ = true;
  last_fault_ = std::max(last_fault_, timeline_.now());
  for (const auto& each : machines_) {
    if (!each->to_agent) continue;
    if (each->agent && !each->agent->welcomed()) all_welcomed_ = false;
    if (script_.launcher_falls_silent) {
      each->to_agent->fall_silent();
    } else {
      each->to_agent->close();
    }
  }
}

// Those who lose a peer fail as well, a little later: the victims that must not be blamed. Or they wait for
// it for ever.
void SimulatedCluster::peers_fail() {
  const bool hang = timeline_.one_in(3);
  for (const auto& each : machines_) {
    for (const auto& [pid, rank] : each->processes.living_workers(job_.attempt())) {
      timeline_.after(timeline_.between(1ms, 60ms), [home = each.get(), pid, hang] {
        if (hang) {
          home->processes.hang(pid);
        } else {
          home->processes.end_worker(pid, 1, 0);
        }
      });
    }
  }
}

// Of a fault of this node: whether the attempt at hand is bound to fail by it.
bool SimulatedCluster::is_decisive(NodeId node) const {
  const bool may_do_without = script_.spare_nodes > 0 || script_.min_nodes < script_.node_count;
  if (job_.phase() == Phase::kGathering) return !may_do_without;
  return std::ranges::find(job_.members(), node, &launcher::NodePlan::node) != job_.members().end();
}

void SimulatedCluster::check_members() const {
  if (job_.phase() == Phase::kGathering) return;
  std::vector<int> first_ranks;
  for (const launcher::NodePlan& each : job_.members()) first_ranks.push_back(each.first_rank.value());
  if (!first_ranks.empty())
    invariants::ranks_are_whole(first_ranks, script_.workers_per_node,
                                std::min(script_.min_nodes, script_.node_count), script_.node_count);
}

void SimulatedCluster::note(Fault::Kind kind, NodeId node, std::optional<Rank> rank) {
  last_fault_ = std::max(last_fault_, timeline_.now());
  truth_.happened(kind, node, rank, is_decisive(node), timeline_.now());
}

// Those that take part in the attempt at hand; none while there is none.
std::set<NodeId> SimulatedCluster::members_now() {
  std::set<NodeId> members;
  if (job_.phase() != Phase::kStopping) gathered_ = job_.phase() != Phase::kGathering;
  if (!gathered_) return members;
  for (const launcher::NodePlan& each : job_.members()) members.insert(each.node);
  return members;
}

void SimulatedCluster::judge(const std::set<NodeId>& members) {
  Judgement judgement{.verdict = job_.verdict(), .culprits = truth_.culprits_of_attempt(members)};
  if (!job_.history().empty()) judgement.world_size = job_.history().back().world_size;
  // A restart that is stopped or refused before it runs is told together with what it was to repeat.
  const bool failed = judgement.verdict.restart_may_help();
  if (!failed && !judgements_.empty()) judgement.culprits.push_back(blamed(judgements_.back().verdict));
  for (const auto& each : machines_)
    judgement.succeeded_count += static_cast<int>(each->processes.succeeded(job_.attempt()).size());
  judgements_.push_back(std::move(judgement));
}

}  // namespace muster::simulation
