#include "tests/unit/launcher/simulated_cluster.h"

#include <algorithm>
#include <csignal>

namespace muster::launcher {

using namespace std::chrono_literals;

namespace {

Plan plan_of(const SimulatedCluster::Script& script) {
  Plan plan;
  for (int node = 0; node < script.node_count; ++node) {
    plan.nodes.push_back({NodeId(node), Rank(node * script.workers_per_node), script.workers_per_node});
  }
  plan.job.max_restarts = script.max_restarts;
  plan.job.grace_ns = std::chrono::nanoseconds(3s).count();
  plan.job.silence_limit_ns = std::chrono::nanoseconds(2s).count();
  return plan;
}

constexpr Duration kWork = 2s;  // what a worker does before it succeeds

}  // namespace

SimulatedCluster::SimulatedCluster(Script script, std::uint64_t seed)
    : script_(std::move(script)),
      job_(plan_of(script_)),
      rng_(seed),
      agents_(static_cast<std::size_t>(script_.node_count)) {}

void SimulatedCluster::run() {
  tell_job(Began{});
  ping();
  for (const auto& signal : {script_.first_signal, script_.second_signal}) {
    if (signal) at(*signal, [this] { tell_job(Interrupted{SIGINT}); });
  }
  const TimePoint end = now_ + 1h;
  while (!done_ && !queue_.empty() && now_ < end) {
    const auto next = queue_.begin();
    now_ = std::max(now_, next->first);
    const auto what = std::move(next->second);
    queue_.erase(next);
    what();
  }
}

int SimulatedCluster::living_worker_count() const {
  int count = 0;
  for (const Agent& each : agents_)
    count += static_cast<int>(std::ranges::count_if(each.workers, &Worker::lives));
  return count;
}

void SimulatedCluster::at(Duration delay, std::function<void()> what) {
  queue_.emplace(now_ + delay, std::move(what));
}

void SimulatedCluster::for_agent(int node, Duration delay, std::function<void(Agent&)> what) {
  const int incarnation = agent(NodeId(node)).incarnation;
  at(delay, [this, node, incarnation, what = std::move(what)] {
    Agent& target = agent(NodeId(node));
    if (target.lives && target.incarnation == incarnation) what(target);
  });
}

void SimulatedCluster::tell_job(Event event) {
  std::vector<Event> events{std::move(event)};
  for (const Decision& decision : job_.on(events.front(), now_)) {
    std::visit([this](const auto& action) { perform(action); }, decision.action);
  }
  arm_deadline();
}

void SimulatedCluster::arm_deadline() {
  const auto next = job_.next_deadline();
  if (!next || next == deadline_) return;
  deadline_ = next;
  at(std::max(Duration::zero(), *next - now_), [this, meant = *next] {
    if (deadline_ != meant) return;
    deadline_.reset();
    tell_job(TimePassed{});
  });
}

// In order, after a delay of the network.
void SimulatedCluster::say(int node, wire::ToLauncher message) {
  Agent& from = agent(NodeId(node));
  if (!from.lives || from.hangs) return;
  const TimePoint arrival = std::max(now_ + random(50us, 5ms), from.last_delivery + 1ns);
  from.last_delivery = arrival;
  at(arrival - now_,
     [this, node, incarnation = from.incarnation, attempt = from.attempt, message = std::move(message)] {
       const Agent& sender = agent(NodeId(node));
       if (sender.incarnation == incarnation && sender.connected)
         tell_job(AgentSaid{NodeId(node), attempt, message});
     });
}

void SimulatedCluster::perform(const StartAgent& action) {
  Agent& started = agent(action.node);
  invariants::nothing_is_left(static_cast<int>(std::ranges::count_if(started.workers, &Worker::lives)));
  started = Agent{.incarnation = started.incarnation + 1,
                  .lives = true,
                  .connected = true,
                  .attempt = {},
                  .workers = {},
                  .last_delivery = {}};
  const int node = action.node.value();
  for_agent(node, random(1ms, 50ms), [this, node](Agent&) { say(node, wire::Hello{}); });
}

void SimulatedCluster::perform(const KillAgent& action) {
  agent(action.node).connected = false;
  agent_dies(action.node.value(), 0ms);
}

void SimulatedCluster::perform(const BeginAttempt&) {
  at(random(0ms, 3ms), [this] {
    succeeded_count_ = 0;
    victim_node_ = random_below(script_.node_count);
    tell_job(AttemptBegun{job_.attempt().next(), std::nullopt});
  });
}

void SimulatedCluster::perform(const Send& action) {
  for_agent(action.node.value(), random(50us, 5ms), [this, action, attempt = job_.attempt()](Agent& target) {
    if (!target.hangs) receive(action.node.value(), attempt, action.message);
  });
}

void SimulatedCluster::receive(int node, Attempt attempt, const wire::ToAgent& message) {
  Agent& target = agent(NodeId(node));
  if (std::holds_alternative<wire::PrepareAttempt>(message)) {
    target.attempt = attempt;
    if (fault_of(attempt) == Fault::kAgentDiesUnprepared && node == victim_node_) {
      inject(Fault::kAgentDiesUnprepared);
    } else {
      say(node, wire::AttemptPrepared{1234});
    }
  } else if (std::holds_alternative<wire::StartWorkers>(message) && attempt == target.attempt) {
    start_workers(node);
  } else if (const auto* stop = std::get_if<wire::StopWorkers>(&message);
             stop != nullptr && attempt == target.attempt) {
    stop_workers(node, *stop);
  } else if (std::holds_alternative<wire::Leave>(message)) {
    agent_dies(node, random(1ms, 20ms));
  }
}

void SimulatedCluster::start_workers(int node) {
  Agent& target = agent(NodeId(node));
  for (std::size_t i = 0; i < target.workers.size(); ++i) {
    invariants::one_attempt_at_a_time(node * script_.workers_per_node + static_cast<int>(i),
                                      target.workers[i].lives);
  }
  target.workers.assign(static_cast<std::size_t>(script_.workers_per_node),
                        Worker{.lives = true, .stopping = false});
  for (int index = 0; index < script_.workers_per_node; ++index) {
    for_agent(node, kWork + random(0ms, 200ms), [this, node, index, attempt = target.attempt](Agent& mine) {
      if (mine.attempt == attempt && !mine.workers.at(static_cast<std::size_t>(index)).stopping)
        end_worker(node, index, 0, 0, false);
    });
  }
  const Fault fault = fault_of(target.attempt);
  if (node != victim_node_ || fault == Fault::kNone || fault == Fault::kAgentDiesUnprepared) return;
  for_agent(node, random(0ms, 1900ms), [this, fault, attempt = target.attempt](Agent& mine) {
    if (mine.attempt == attempt && job_.phase() == Phase::kRunning) inject(fault);
  });
}

void SimulatedCluster::inject(Fault fault) {
  const int node = victim_node_;
  last_fault_ = now_;
  auto& first = first_faults_[job_.attempt()];
  if (fault == Fault::kWorkerDies || fault == Fault::kAgentDiesWhileStopping) {
    const int index = random_below(script_.workers_per_node);
    const int rank = node * script_.workers_per_node + index;
    first = {.rank = rank, .node = node};
    end_worker(node, index, rank % 2 == 0 ? 3 : 0, rank % 2 == 0 ? 0 : SIGKILL, false);
    others_fail(rank);
    if (fault == Fault::kAgentDiesWhileStopping) {
      const int other = (node + 1) % script_.node_count;
      for_agent(other, random(150ms, 400ms), [this, other, attempt = job_.attempt()](Agent&) {
        if (job_.attempt() == attempt && job_.phase() == Phase::kStopping)
          agent_dies(other, random(1ms, 20ms));
      });
    }
    return;
  }
  first = {.rank = std::nullopt, .node = node};
  if (fault == Fault::kAgentHangs) {
    agent(NodeId(node)).hangs = true;
  } else {
    agent_dies(node, random(1ms, 20ms));
    others_fail(-1);
  }
}

// Those who lose a peer fail as well, a little later: the victims that must not be blamed.
void SimulatedCluster::others_fail(int but_rank) {
  for (int node = 0; node < script_.node_count; ++node) {
    for (int index = 0; index < script_.workers_per_node; ++index) {
      if (node * script_.workers_per_node + index == but_rank) continue;
      for_agent(node, random(1ms, 60ms), [this, node, index, attempt = job_.attempt()](Agent& mine) {
        if (mine.attempt != attempt || mine.workers.empty()) return;
        end_worker(node, index, 1, 0, mine.workers.at(static_cast<std::size_t>(index)).stopping);
      });
    }
  }
}

void SimulatedCluster::stop_workers(int node, const wire::StopWorkers& stop) {
  Agent& target = agent(NodeId(node));
  const Duration grace = std::chrono::nanoseconds(stop.grace_ns);
  for (int index = 0; index < static_cast<int>(target.workers.size()); ++index) {
    target.workers[static_cast<std::size_t>(index)].stopping = true;
    // One in five ignores the signal until it is killed.
    const bool stubborn = random_below(5) == 0;
    const Duration delay = stubborn ? grace : std::min(grace, random(1ms, 500ms));
    for_agent(node, delay,
              [this, node, index, stubborn, attempt = target.attempt, signal = stop.signal](Agent& mine) {
                if (mine.attempt == attempt) end_worker(node, index, 0, stubborn ? SIGKILL : signal, true);
              });
  }
  if (std::ranges::none_of(target.workers, &Worker::lives)) say(node, wire::WorkersGone{});
}

void SimulatedCluster::end_worker(int node, int index, int code, int signal, bool after_stop) {
  Agent& home = agent(NodeId(node));
  Worker& worker = home.workers.at(static_cast<std::size_t>(index));
  if (!worker.lives) return;
  worker.lives = false;
  if (code == 0 && signal == 0) ++succeeded_count_;
  wire::WorkerExited exited;
  exited.rank = Rank(node * script_.workers_per_node + index);
  exited.local_rank = LocalRank(index);
  exited.exit_code = code;
  exited.signal = signal;
  exited.at_ns = std::chrono::nanoseconds(now_.time_since_epoch()).count();
  exited.after_stop = after_stop;
  say(node, exited);
  if (std::ranges::none_of(home.workers, &Worker::lives)) say(node, wire::WorkersGone{});
}

// Its workers die with it, by its guardian, a moment later; then no stray is left.
void SimulatedCluster::agent_dies(int node, Duration noticed_after) {
  Agent& dead = agent(NodeId(node));
  if (!dead.lives) return;
  dead.lives = false;
  const int incarnation = dead.incarnation;
  const TimePoint noticed = std::max(now_ + noticed_after, dead.last_delivery + 1ns);
  at(noticed - now_, [this, node, incarnation] {
    const Agent& ended = agent(NodeId(node));
    if (ended.incarnation == incarnation && ended.connected)
      tell_job(AgentEnded{NodeId(node), "its agent died"});
  });
  at(noticed - now_ + random(1ms, 40ms), [this, node, incarnation] {
    Agent& ended = agent(NodeId(node));
    if (ended.incarnation == incarnation) {
      for (Worker& worker : ended.workers) worker.lives = false;
    }
    const bool all_clear = std::ranges::all_of(agents_, [](const Agent& each) {
      return each.lives || std::ranges::none_of(each.workers, &Worker::lives);
    });
    if (all_clear) tell_job(StraysEnded{});
  });
}

void SimulatedCluster::ping() {
  for (int node = 0; node < script_.node_count; ++node)
    for_agent(node, random(50us, 5ms), [this, node](Agent&) { say(node, wire::Pong{}); });
  at(1s, [this] { ping(); });
}

Fault SimulatedCluster::fault_of(Attempt attempt) const {
  const std::size_t index = attempt.value() - 1;
  return index < script_.faults.size() ? script_.faults[index] : Fault::kNone;
}

Duration SimulatedCluster::random(Duration low, Duration high) {
  return low +
         Duration(static_cast<Duration::rep>(rng_() % static_cast<std::uint64_t>((high - low).count())));
}

}  // namespace muster::launcher
