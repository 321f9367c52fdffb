#include "tests/simulation/launch.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace muster::simulation {

using namespace std::chrono_literals;
using launcher::Phase;

namespace {

// The limit for a step; a rank that takes longer hangs.
Duration hang_limit(const Script& script) {
  return std::max<Duration>(4 * script.step, 3s);
}

// The output window of a node, in bytes: a few lines.
constexpr std::size_t kOutputWindow = 30;

struct End {
  int exit_code = 0;
  int signal = 0;
};

// Faults of the worker that dies.
End end_by(const Fault& fault) {
  constexpr int kFailed = 3;
  if (fault.choice % 2 == 0) return {.exit_code = kFailed};
  return {.signal = fault.choice % 3 == 0 ? SIGSEGV : SIGKILL};
}

launcher::Plan plan_of(const Script& script, bool take_over) {
  launcher::Plan plan;
  plan.job.output_window_bytes = kOutputWindow;
  std::int32_t rank = 0;
  for (int node = 0; node < script.node_count; ++node) {
    plan.nodes.push_back({NodeId(node), Rank(rank), script.room_of(node)});
    rank += script.room_of(node);
  }
  if (script.on_hosts) {
    plan.remote.bootstrap = launcher::BootstrapKind::kSsh;
    for (int node = 0; node < script.node_count + script.spare_nodes; ++node)
      plan.hosts.push_back({.name = host_name(node), .slots = script.room_of(node)});
  }
  plan.max_nodes = script.node_count + script.added_nodes;
  if (script.min_nodes < script.node_count) plan.min_nodes = script.min_nodes;
  plan.spare_nodes = script.spare_nodes;
  plan.take_over = take_over;
  plan.recovery.preemption_grace = Limits::kPreemptionGrace;
  plan.job.job_id = "simulated";
  if (script.checkpoints) plan.job.checkpoint_directory = "/checkpoints";
  plan.job.use_gpus = true;
  if (script.input) plan.job.input_rank = Rank(script.rank_count() - 1);
  plan.job.mpi = script.mpi ? wire::Mpi::kPmix : wire::Mpi::kNone;
  plan.job.warm = script.warm ? wire::Warm::kOn : wire::Warm::kOff;
  plan.job.max_restarts = script.max_restarts;
  plan.job.limits.grace = Limits::kGrace;
  plan.job.limits.silence_limit = Limits::kSilence;
  plan.job.limits.controller_grace = Limits::kControllerGrace;
  plan.job.limits.hang_limit = hang_limit(script);
  if (script.memory_tier) plan.job.limits.memory_tier_bytes = 1 << 30;
  return plan;
}

}  // namespace

Launch::Launch(World& world, const MachineClock& clock, const Options& options,
               std::function<void()> on_change)
    : world_(world),
      options_(options),
      on_change_(std::move(on_change)),
      program_(std::make_shared<Program>(world.timeline, clock,
                                         world.seed + 1000 * static_cast<std::uint64_t>(options.number))),
      agents_(world, *this),
      lineage_(world, options.number, program_),
      input_(world.seed, program_),
      judge_(world, options.number) {
  world_.truths[options_.number] = std::make_unique<GroundTruth>(Limits::kSilence);
  launcher_ = std::make_unique<launcher::Launcher>(
      plan_of(world_.script, options_.take_over),
      launcher::Launcher::Parts{.time = *program_,
                                .bootstrap = agents_,
                                .lineage = lineage_,
                                .view = *this,
                                .finished = [this] { finish(); },
                                .input = script_input(),
                                .neighbour_key = [](const std::string& who) { return "key of " + who; }});
  program_->set_observer([this] { observe(); });
}

Launch::~Launch() = default;

launcher::Input* Launch::script_input() {
  return world_.script.input ? &input_ : nullptr;
}

void Launch::begin() {
  world_.say(name() + ": begins");
  program_->run([this] { launcher_->begin(); });
}

bool Launch::gone() const {
  const bool ended = over() || (silent_ && !wakes_);
  return ended && living_agent_count() == 0 && living_process_count() == 0;
}

int Launch::living_process_count() const {
  int count = 0;
  for (const auto& each : world_.machines) count += each->living_count(options_.number);
  return count;
}

Training* Launch::training() const {
  const auto found = world_.trainings.find({options_.number, job().attempt()});
  return found == world_.trainings.end() ? nullptr : found->second.get();
}

// ---- What the launcher shows ----

void Launch::show(const launcher::Decision& decision, Duration) {
  if (const auto* told = std::get_if<launcher::Tell>(&decision.action))
    world_.say(fmt::format("{}: \"{}\"", name(), told->text));
  if (const auto* finish = std::get_if<launcher::Finish>(&decision.action))
    cleared_up_ = finish->nothing_is_left;
  const auto* record = std::get_if<launcher::Record>(&decision.action);
  if (record == nullptr) return;
  if (world_.trace) {
    std::string where = record->rank ? fmt::format(" rank {}", *record->rank) : "";
    if (record->node) where += fmt::format(" node{}", *record->node);
    world_.say(
        fmt::format("{}: attempt {}: {}{}: {}", name(), record->attempt, record->event, where, record->text));
  }
  if (record->event == "node_lost") truth().noticed(*record->node, !job().backs_off(), world_.timeline.now());
  judge_now();  // several attempts may end in one call of the launcher
  if (record->event == "worker_unkillable") unkillable_ = true;
  if (record->event == "leftover_unkillable") ++survivor_count_;
  if (record->event == "restart") world_.disturbed(world_.timeline.now() + record->wait);
}

// The terminal is slow at times.
void Launch::show_output(NodeId node, const wire::Output& output, launcher::Taken taken) {
  const std::size_t bytes = output.text.view().size();
  auto& untaken = untaken_[node];
  if (!untaken) untaken = std::make_shared<std::size_t>(0);
  *untaken += bytes;
  world_.invariants.holds(*untaken <= kOutputWindow + bytes,
                          fmt::format("{} bytes of node{}'s output wait to be taken", *untaken, node));
  const auto take = [untaken, taken = std::move(taken), bytes] {
    *untaken -= bytes;
    (*taken)(bytes);
  };
  if (!world_.other_chance.one_in(3)) return take();
  program_->run_after(world_.other_chance.between(0s, 12s), take);
}

void Launch::keep_log(NodeId, Attempt, const wire::LogPiece& piece, LogAnswer answer) {
  const wire::LogTaken taken{.rank = piece.rank, .bytes = piece.offset + piece.text.view().size()};
  program_->run_after(world_.other_chance.between(0ms, 300ms),
                      [taken, answer = std::move(answer)] { answer(taken); });
}

void Launch::judge_now() {
  judge_.look(job(), {.wishes = wishes_,
                      .ranks = training(),
                      .fenced = lineage_.has_fenced(),
                      .denial_count = lineage_.denial_count(),
                      .may_give_up = unkillable_ || survivor_count_ > 0,
                      .slept = woke_});
}

void Launch::observe() {
  judge_now();
  if (std::exchange(phase_, job().phase()) != job().phase()) on_change_();
}

void Launch::finish() {
  constexpr Duration kClearUp = 500ms;  // for guardians
  finished_ = true;
  world_.say(fmt::format("{}: ends with {}: {}", name(), job().verdict().exit_code, job().verdict().cause));
  const auto look = [this] {
    world_.invariants.nothing_is_left(living_process_count(), living_agent_count());
  };
  if (cleared_up_) look();
  world_.timeline.after(kClearUp, look);
  world_.progressed();
  world_.timeline.after(0ms, [this] {
    program_->die();
    agents_.close_all();
    on_change_();
  });
}

// ---- What happens to it ----

void Launch::happened(GroundTruth::Happened what) {
  world_.disturbed(world_.timeline.now());
  world_.say(fmt::format("{}: FAULT: {} at node{}{}", name(), name_of(what.kind), what.node,
                         what.rank ? fmt::format(", rank {}", *what.rank) : ""));
  what.decisive = judge_.is_decisive(job(), what.node);
  what.at = std::max(what.at, world_.timeline.now());
  truth().happened(what);
}

bool Launch::hit_worker(const Fault& fault) {
  Training* ranks = training();
  const TimePoint now = world_.timeline.now();
  // A stopped agent reports late, so the launcher could not know which failure was first.
  if (ranks == nullptr || job().phase() != Phase::kRunning || now < agents_.paused_until()) return false;
  for (std::size_t i = 0; i < world_.machines.size(); ++i) {
    const auto index = (static_cast<std::size_t>(fault.node) + i) % world_.machines.size();
    const NodeId node(static_cast<int>(index));
    Machine& home = *world_.machines[index];
    if (agents_.running(node) == nullptr) continue;
    auto workers = home.workers_of(options_.number, job().attempt());
    std::erase_if(workers, [](const SimulatedProcess* each) { return !each->gets_on(); });
    if (workers.empty()) continue;
    // Without reports of steps the launcher cannot see a stall, and a rank may seem to be behind, or slow
    // from then on.
    const bool seen =
        !world_.any_datagram_lost_since(ranks->began()) && ranks->steps_made() >= 2 && ranks->complete();
    if (traits_of(fault.kind).stall && !seen) return false;
    if (fault.kind == FaultKind::kWorkerLeavesEarly && (ranks->world_size() < 4 || !ranks->complete()))
      return false;
    SimulatedProcess& worker = *workers[static_cast<std::size_t>(fault.choice) % workers.size()];
    const End end = end_by(fault);
    happened({.kind = fault.kind,
              .node = node,
              .rank = worker.rank,
              .exit_code = end.signal != 0 ? launcher::exit_code_of_signal(end.signal) : end.exit_code});
    hit(fault, home, worker, *ranks);
    return true;
  }
  return false;
}

void Launch::hit(const Fault& fault, Machine& home, SimulatedProcess& worker, Training& ranks) {
  const std::int32_t pid = worker.pid;
  const Rank rank = worker.rank;
  const TimePoint now = world_.timeline.now();
  const Duration stall_limit = hang_limit(world_.script) + world_.script.step + 6s;
  const bool even = fault.choice % 2 == 0;
  switch (fault.kind) {
    case FaultKind::kWorkerLeavesEarly: home.end(pid, 0, 0); return ranks.peers_fail(true);
    case FaultKind::kOutOfMemory:
      worker.out_of_memory = true;
      home.end(pid, 0, SIGKILL);
      return ranks.peers_fail(false);
    case FaultKind::kWorkerStopped:
      worker.pace = even ? Pace::kStopped : Pace::kFrozen;
      return world_.disturbed(now + 8s);
    case FaultKind::kWorkerUnkillable:
      worker.held_until = now + stall_limit + fault.length;
      world_.disturbed(*worker.held_until);
      return ranks.stall(rank);
    case FaultKind::kGpuFails:
      agents_.running(worker.owner.agent.node)->gpu_fails(pid);
      world_.disturbed(now + 5s);
      return ranks.stall(rank);
    case FaultKind::kWorkerStalls: world_.disturbed(now + stall_limit); return ranks.stall(rank);
    default: {
      const End end = end_by(fault);
      // Its victims may report before it.
      if (fault.choice % 4 < 2) agents_.delay(worker.owner.agent.node, 300ms);
      home.end(pid, end.exit_code, end.signal);
      return ranks.peers_fail(false);
    }
  }
}

void Launch::pause(Duration length) {
  world_.disturbed(world_.timeline.now() + length);
  truth().is_blind_until(world_.timeline.now() + length);
  program_->stop();
  world_.timeline.after(length, [program = program_] { program->resume(); });
}

void Launch::die() {
  world_.say(name() + ": its launcher is killed");
  program_->die();
  agents_.close_all();
}

void Launch::fall_silent(std::optional<Duration> wake_after) {
  world_.say(name() + ": its launcher is stopped");
  program_->stop();
  silent_ = true;
  wakes_ = wake_after.has_value();
  if (!wakes_) return;
  world_.timeline.after(*wake_after, [this] {
    silent_ = false;
    woke_ = true;
    world_.say(name() + ": its launcher goes on");
    program_->resume();
  });
}

// ---- Its user ----

void Launch::wish_came() {
  world_.disturbed(world_.timeline.now());
  if (!wishes_.restarts_before) wishes_.restarts_before = job().restart_count();
}

void Launch::interrupt(int signal) {
  world_.say(fmt::format("{}: signal {}", name(), signal));
  program_->run([this, signal] {
    if (signal == SIGINT) {
      ++wishes_.interrupt_count;
    } else {
      wishes_.noticed = true;
    }
    launcher_->interrupt(signal);
    // If the workers cannot save, the launcher passes the signal on to them.
    if (signal != SIGUSR1) wish_came();
  });
}

void Launch::cancel(bool now) {
  world_.say(name() + ": `launch cancel`");
  program_->run([this, now] {
    wishes_.cancelled = true;
    launcher_->cancel(now);
    wish_came();
  });
}

void Launch::pass_signal_on() {
  world_.say(name() + ": SIGUSR2");
  program_->run([this] { launcher_->interrupt(SIGUSR2); });
}

void Launch::look_at_status() {
  const launcher::JobStatus status = launcher_->status();
  std::size_t rank_count = 0;
  for (const launcher::NodePlan& each : job().members())
    rank_count += static_cast<std::size_t>(each.worker_count);
  world_.invariants.holds(status.ranks.size() == rank_count && status.restart_count == job().restart_count(),
                          fmt::format("the status shows {} ranks of {}", status.ranks.size(), rank_count));
}

bool Launch::add_host() {
  if (added_count_ == world_.script.added_nodes) return false;
  const int node = world_.script.node_count + added_count_;
  const bool now = world_.other_chance.one_in(2);
  const auto told =
      launcher_->add_nodes(fmt::format("{}:{}", host_name(node), world_.script.room_of(node)), now);
  world_.say(fmt::format("{}: `launch nodes add`: {}", name(), told ? *told : told.error().message()));
  if (!told) return false;
  ++added_count_;
  if (now) ++world_.growth_count;
  return true;
}

void Launch::dump_stacks() {
  world_.say(name() + ": `launch dump`");
  program_->run([this] { (void)launcher_->ask_for_stacks(); });
}

}  // namespace muster::simulation
