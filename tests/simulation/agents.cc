#include "tests/simulation/agents.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/base/version.h"
#include "tests/simulation/launch.h"
#include "tests/simulation/mpi.h"

namespace muster::simulation {

using namespace std::chrono_literals;
using launcher::Phase;

namespace {

wire::Hello hello_of(AgentId id, bool on_hosts) {
  wire::Hello hello{.node = id.node,
                    .pid = 1,
                    .hostname = "host",
                    .version = std::string(kVersion),
                    .core_count = 8,
                    .incarnation = id.incarnation};
  if (!on_hosts) return hello;
  hello.hostname = host_name(id.node.value());
  hello.addresses = {fmt::format("eth0 10.0.0.{}/24", 1 + id.node.value())};
  return hello;
}

std::string frame_of_version_1(AgentId id, bool on_hosts) {
  constexpr std::size_t kVersionAt = 4;
  std::string bytes = wire::encode({.type = 0,
                                    .destination = wire::kLauncher,
                                    .source = id.node,
                                    .term = {},
                                    .attempt = {},
                                    .sequence = Sequence(1)},
                                   hello_of(id, on_hosts));
  bytes[kVersionAt] = 1;
  return bytes;
}

}  // namespace

// An agent's process on its machine, and its connection.
struct Agents::Process : std::enable_shared_from_this<Process> {
  Process(World& world, const Owner& whose)
      : owner(whose),
        program(std::make_shared<Program>(
            world.timeline, world.machines[static_cast<std::size_t>(whose.agent.node.value())]->clock(),
            world.seed + static_cast<std::uint64_t>(whose.agent.node.value()))),
        host(std::make_shared<AgentHost>(world, whose, program)) {}

  Owner owner;
  std::shared_ptr<Program> program;
  std::shared_ptr<AgentHost> host;
  SimulatedMpi mpi;
  std::shared_ptr<Line> line;
  std::shared_ptr<net::Channel> launchers_end;  // until agent_connected()
  std::unique_ptr<agent::Link> link;
  std::unique_ptr<agent::Agent> agent;
  bool lives = true;
  bool killed = false;    // the kill takes effect in a moment
  bool guardian = false;  // a guardian has yet to kill the agent's leftovers
  bool told = false;      // connected
};

Agents::Agents(World& world, Launch& launch) : world_(world), launch_(launch) {}

Agents::~Agents() = default;

int Agents::living_count() const {
  return static_cast<int>(
      std::ranges::count_if(agents_, [](const auto& entry) { return entry.second->lives; }));
}

bool Agents::all_welcomed() const {
  return std::ranges::all_of(
      agents_, [](const auto& entry) { return !entry.second->lives || entry.second->host->welcomed(); });
}

void Agents::close_all() {
  for (const auto& [id, agent] : agents_) agent->line->close(0);
}

Agents::Process* Agents::connected_process(NodeId node) const {
  const auto after = agents_.upper_bound(AgentId{node, Incarnation(0xFFFFFFFF)});
  if (after == agents_.begin()) return nullptr;
  const auto& [id, agent] = *std::prev(after);
  return id.node == node && agent->lives && agent->told ? agent.get() : nullptr;
}

AgentHost* Agents::connected(NodeId node) const {
  Process* agent = connected_process(node);
  return agent != nullptr ? agent->host.get() : nullptr;
}

AgentHost* Agents::running(NodeId node) const {
  Process* agent = connected_process(node);
  return agent != nullptr && agent->program->runs() ? agent->host.get() : nullptr;
}

// ---- Starts and ends ----

void Agents::start(AgentId id) {
  launch_.truth().started_anew(id.node);
  world_.say(
      fmt::format("{}: starts the agent of node{}, number {}", launch_.name(), id.node, id.incarnation));
  std::optional<FaultKind> fault;
  if (const auto found = start_faults_.find(id.node); found != start_faults_.end()) {
    fault = found->second;
    start_faults_.erase(found);
    world_.came_true(*fault);
    launch_.happened({.kind = *fault, .node = id.node});
  }
  if (fault == FaultKind::kAgentNotStarted)
    return launch_.program().run_after(world_.chance.between(0ms, 5ms), [this, id] {
      listener_->agent_ended(id, "its agent cannot be started: Resource temporarily unavailable",
                             launcher::AgentEnd::kOther);
    });
  const auto agent = std::make_shared<Process>(world_, Owner{launch_.number(), id});
  agents_[id] = agent;
  world_.hosts[agent->owner] = agent->host;
  open(*agent);
  // The previous agent may still live, and connect while the launcher waits for its successor.
  if (id.incarnation > Incarnation(1) && world_.chance.one_in(4))
    stranger_calls({id.node, Incarnation(id.incarnation.value() - 1)});
  // The agent gives up after some time.
  const auto give_up = [this, weak = std::weak_ptr(agent)] {
    world_.timeline.after(agent::Node::kWelcomeLimit, [this, weak] { quit(weak, {.exit_code = 1}); });
  };
  if (fault == FaultKind::kAgentDoesNotCall) {
    // With hosts, the host shell ends without an answer.
    if (world_.script.on_hosts)
      world_.timeline.after(Limits::kSilence, [this, weak = std::weak_ptr(agent)] {
        const auto self = weak.lock();
        if (self && self->lives) gone(*self, "no answer from its host", /*guarded=*/true);
      });
    return give_up();
  }
  if (!launch_.connects_late()) tell_connected(*agent);
  // Another protocol version, or only another program version.
  const bool other_version = fault == FaultKind::kAgentOfOtherVersion;
  const bool other_protocol = other_version && world_.chance.one_in(2);
  if (other_protocol) give_up();
  agent->program->run_after(world_.chance.between(1ms, 50ms),
                            [this, id, weak = std::weak_ptr(agent), other_version, other_protocol] {
                              const auto self = weak.lock();
                              if (!self || !self->lives) return;
                              if (launch_.connects_late()) tell_connected(*self);
                              if (other_protocol)
                                return self->line->inject(1, frame_of_version_1(id, world_.script.on_hosts));
                              wire::Hello hello = hello_of(id, world_.script.on_hosts);
                              if (other_version) hello.version = "0.0.1";
                              self->agent->start(hello);
                            });
}

void Agents::open(Process& agent) {
  agent.line = Line::make(world_.timeline, world_.chance, world_.script.delays);
  agent.launchers_end = agent.line->open(0, launch_.program().weak_from_this());
  agent.link = std::make_unique<agent::Link>(*agent.program, agent.line->open(1, agent.program),
                                             agent.owner.agent.node);
  agent.host->set_link(*agent.link);
  agent.agent =
      std::make_unique<agent::Agent>(agent::Agent::Parts{.time = *agent.program,
                                                         .link = *agent.link,
                                                         .processes = *agent.host,
                                                         .templates = *agent.host,
                                                         .leftovers = *agent.host,
                                                         .talk = *agent.host,
                                                         .vitals = *agent.host,
                                                         .logs = *agent.host,
                                                         .store = *agent.host,
                                                         .mpi = agent.mpi},
                                     [this, weak = agent.weak_from_this()](const agent::Quit& how) {
                                       // Scheduled, since the agent's function is still running.
                                       world_.timeline.after(0ms, [this, weak, how] { quit(weak, how); });
                                     });
}

void Agents::tell_connected(Process& agent) {
  agent.told = true;
  const Duration delay =
      launch_.connects_late() ? world_.chance.between(1ms, 10ms) : world_.chance.between(0ms, 2ms);
  launch_.program().run_after(
      delay, [this, id = agent.owner.agent, end = std::exchange(agent.launchers_end, nullptr)] {
        listener_->agent_connected(id, end);
      });
}

void Agents::quit(const std::weak_ptr<Process>& weak, const agent::Quit& how) {
  const auto agent = weak.lock();
  if (!agent || !agent->lives) return;
  const auto left = std::ranges::count_if(machine(agent->owner.agent.node).living(), [&](const auto& entry) {
    return entry.second.owner == agent->owner && !entry.second.survives;
  });
  world_.invariants.holds(
      left == 0 || how.leaves_processes,
      fmt::format("G1: the agent of node{} leaves {} processes behind, and not to its guardian",
                  agent->owner.agent.node, left));
  world_.invariants.holds(
      !agent->host->holds_memory(),
      fmt::format("G4: node{} leaves, and what its failed workers held in memory was not written out",
                  agent->owner.agent.node));
  gone(*agent, fmt::format("its agent exited with code {}", how.exit_code), how.leaves_processes);
}

void Agents::killed(Process& agent) {
  gone(agent, "its agent was killed by SIGKILL", true);
}

void Agents::kill(AgentId id) {
  const auto found = agents_.find(id);
  if (found == agents_.end() || !found->second->lives) return;
  if (launch_.job().phase() < Phase::kLeaving)
    world_.invariants.only_the_touched_are_killed(id.node, launch_.truth().touched(id.node));
  found->second->killed = true;
  world_.timeline.after(world_.chance.between(0ms, 2ms), [this, agent = found->second] {
    if (agent->lives) killed(*agent);
  });
}

// `guarded`: the agent was killed, or told its guardian that it leaves processes. The guardian kills them a
// moment later, and the peers of ranks among them notice.
void Agents::gone(Process& agent, const std::string& how, bool guarded) {
  const auto self = agent.shared_from_this();
  const AgentId id = agent.owner.agent;
  world_.say(fmt::format("{}: node{}, number {}: {}", launch_.name(), id.node, id.incarnation, how));
  agent.lives = false;
  agent.program->die();
  agent.agent.reset();
  agent.link.reset();  // closes the connection
  world_.hosts.erase(agent.owner);
  const bool leaves = std::ranges::any_of(
      machine(id.node).living(), [&](const auto& entry) { return entry.second.owner == agent.owner; });
  if (guarded && leaves) {
    agent.guardian = true;
    const bool takes_part = !machine(id.node).workers_of(launch_.number(), launch_.job().attempt()).empty();
    if (Training* ranks = launch_.training(); ranks != nullptr && takes_part) ranks->peers_fail(false);
    // On a busy machine this may be later than the next attempt could begin.
    const Duration most = world_.other_chance.one_in(4) ? 450ms : 40ms;
    world_.timeline.after(world_.chance.between(1ms, most), [this, self] {
      machine(self->owner.agent.node).kill_all(self->owner);
      self->guardian = false;
      leftover_ended();
    });
  }
  launch_.program().run_after(world_.chance.between(0ms, 20ms), [this, id, how] {
    listener_->agent_ended(id, how, launcher::AgentEnd::kOther);
  });
  launch_.changed();
}

// ---- What lost agents leave ----

std::vector<Leftover> Agents::leftovers(bool kill) {
  std::vector<Leftover> left;
  for (const auto& [id, agent] : agents_) {
    if (agent->lives && !agent->killed) continue;
    Machine& home = machine(id.node);
    const auto whose = world_.script.on_hosts ? std::optional(id.node) : std::nullopt;
    if (agent->lives || agent->guardian)
      left.push_back({.pid = 1'000'000'000 + id.node.value(), .name = "agent", .node = whose});
    std::vector<std::pair<std::int32_t, bool>> its;
    for (const auto& [pid, process] : home.living()) {
      if (process.owner == agent->owner) its.emplace_back(pid, process.survives);
    }
    for (const auto& [pid, survives] : its) {
      Leftover each{.pid = pid, .name = "train", .node = whose};
      if (survives) each.error = 1;
      left.push_back(std::move(each));
      if (kill) home.signal(pid, SIGKILL);
    }
  }
  return left;
}

void Agents::look_for_leftovers(bool kill) {
  auto left = leftovers(kill);
  if (world_.chance.one_in(2)) return listener_->leftovers_seen(std::move(left), kill);
  launch_.program().run_after(
      world_.chance.between(0ms, 2ms),
      [this, kill, left = std::move(left)]() mutable { listener_->leftovers_seen(std::move(left), kill); });
}

void Agents::leftover_ended() {
  launch_.program().run_after(world_.chance.between(0ms, 2ms),
                              [this] { listener_->leftovers_seen(leftovers(false), false); });
}

// ---- Faults ----

bool Agents::hit_agent(const Fault& fault) {
  const NodeId node(fault.node);
  Process* agent = connected_process(node);
  if (agent == nullptr || !agent->program->runs()) return false;
  launch_.happened({.kind = fault.kind, .node = node, .length = fault.length});
  if (fault.kind == FaultKind::kAgentKilled) {
    killed(*agent);
    return true;
  }
  if (fault.kind == FaultKind::kAgentFreezes) expect_notice(*agent);
  paused_until_ = std::max(paused_until_, world_.timeline.now() + fault.length);
  world_.disturbed(world_.timeline.now() + std::min<Duration>(fault.length, Limits::kSilence));
  agent->program->stop();
  world_.timeline.after(fault.length, [program = agent->program] { program->resume(); });
  return true;
}

bool Agents::hit_link(const Fault& fault) {
  const NodeId node(fault.node);
  Process* agent = connected_process(node);
  if (agent == nullptr) return false;
  // While the link to the launcher is clogged, the launcher sees no pause.
  launch_.happened(
      {.kind = fault.kind, .node = node, .at = agent->line->clear_at(1), .length = fault.length});
  const TimePoint until = world_.timeline.now() + fault.length;
  const int side = fault.choice % 2;
  switch (fault.kind) {
    case FaultKind::kLinkCloses: agent->line->reset(); break;
    case FaultKind::kLinkFallsSilent:
      agent->line->cut(0);
      agent->line->cut(1);
      expect_notice(*agent);
      world_.disturbed(world_.timeline.now() + Limits::kSilence);
      break;
    case FaultKind::kLinkIsCutOneWay:
      // The launcher does not lose an agent that receives nothing while its ranks report; the agent leaves
      // when the controller grace has passed.
      agent->line->hold(side, until);
      world_.disturbed(until);
      break;
    case FaultKind::kLinkClogs:
      agent->line->hold(0, until);
      agent->line->hold(1, until);
      world_.disturbed(until);
      world_.clocks_unsure_until = until + 1s;  // the next ping
      break;
    default: agent->line->inject(1 - side, std::string(40, '\xFF')); break;
  }
  return true;
}

void Agents::expect_notice(Process& agent) {
  const TimePoint since = std::max(world_.timeline.now(), agent.line->clear_at(1));
  constexpr Duration kOnItsWay = 900ms;  // the longest delay; freezes last longer
  world_.timeline.at(since + Limits::kSilence + kOnItsWay, [this, since, weak = agent.weak_from_this()] {
    const auto self = weak.lock();
    const bool awake = launch_.runs() && !launch_.woke() && launch_.truth().sees_since() <= since;
    if (!self || !self->lives || !awake || launch_.job().phase() == Phase::kDone) return;
    world_.invariants.holds(
        self->killed || !launch_.listens_to(self->owner.agent),
        fmt::format("G7: node{} has been silent for longer than the limit, and is not lost",
                    self->owner.agent.node));
  });
}

bool Agents::arm_start(const Fault& fault) {
  const NodeId node(fault.node);
  Process* agent = connected_process(node);
  if (agent == nullptr) return false;
  launch_.happened({.kind = FaultKind::kAgentKilled, .node = node});
  start_faults_[node] = fault.kind;
  killed(*agent);
  return true;
}

// Claims to be an older incarnation. Its messages would end, empty or fail the attempt.
bool Agents::send_stranger(const Fault& fault) {
  const NodeId node(fault.node);
  Process* agent = connected_process(node);
  if (agent == nullptr || agent->owner.agent.incarnation <= Incarnation(1)) return false;
  stranger_calls({node, Incarnation(agent->owner.agent.incarnation.value() - 1)});
  return true;
}

void Agents::delay(NodeId node, Duration time) {
  if (Process* agent = connected_process(node)) agent->line->hold(1, world_.timeline.now() + time);
}

void Agents::stranger_calls(AgentId old) {
  const NodeId node = old.node;
  const auto line = Line::make(world_.timeline, world_.chance, world_.script.delays);
  strangers_.push_back(line);
  launch_.program().run_after(0ms, [this, old, end = line->open(0, launch_.program().weak_from_this())] {
    listener_->agent_connected(old, end);
  });
  std::uint64_t sequence = 0;
  const auto say = [&](const wire::ToLauncher& message) {
    line->inject(1, wire::encode({.type = 0,
                                  .destination = wire::kLauncher,
                                  .source = node,
                                  .term = Term(1),
                                  .attempt = launch_.job().attempt(),
                                  .sequence = Sequence(++sequence)},
                                 message));
  };
  say(hello_of(old, world_.script.on_hosts));
  wire::WorkerExited exited;
  for (const launcher::NodePlan& each : launch_.job().members()) {
    if (each.node == node) exited.rank = each.first_rank;
  }
  exited.exit_code = 9;
  say(exited);
  say(wire::AttemptRefused{.exit_code = 127, .message = "a stranger's refusal"});
  say(wire::WorkersGone{});
}

}  // namespace muster::simulation
