#include "tests/simulation/agent_host.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "tests/simulation/training.h"

namespace muster::simulation {

using namespace std::chrono_literals;
using agent::StartFailure;
using agent::StartStep;
using wire::ReportKind;

namespace {

constexpr std::string_view kLine = "step\n";

}  // namespace

AgentHost::AgentHost(World& world, Owner owner, std::weak_ptr<Program> program)
    : world_(world), owner_(owner), program_(std::move(program)) {}

void AgentHost::later(Duration delay, std::function<void(AgentHost&)> what) {
  const auto program = program_.lock();
  if (!program) return;
  program->run_after(delay, [weak = weak_from_this(), what = std::move(what)] {
    if (const auto self = weak.lock()) what(*self);
  });
}

// ---- What happens to processes ----

void AgentHost::process_ended(const SimulatedProcess& ended, int exit_code, int signal) {
  if (ended.is_worker() && ended.attempt == attempt_) {
    wire::WorkerExited exited;
    exited.pid = ended.pid;
    exited.exit_code = exit_code;
    exited.signal = signal;
    exited.oom_kill_count = ended.out_of_memory ? 1 : 0;
    if (signal == SIGKILL && world_.script.gpus_keep_memory && world_.other_chance.one_in(3))
      machine().gpu_memory_held_until =
          world_.timeline.now() +
          (world_.other_chance.one_in(40) ? Duration(70s) : world_.other_chance.between(0s, 4s));
    const auto training = world_.trainings.find({owner_.launch, attempt_});
    std::string line = training == world_.trainings.end() ? "" : training->second->last_line_of(ended.rank);
    later(world_.chance.between(0ms, 2ms),
          [exited, local_rank = ended.local_rank, line = std::move(line)](AgentHost& self) mutable {
            const auto program = self.program_.lock();
            exited.at_ns = to_ns(program->now());
            if (exited.exit_code != 0 || exited.signal != 0) self.has_failed_ = true;
            if (!line.empty()) self.last_lines_[local_rank] = line;
            if (self.stdin_ && self.stdin_->pid() == exited.pid) {
              self.look_at_input();
              self.stdin_.reset();
            }
            self.listener_->worker_ended(local_rank, exited);
          });
  } else {
    later(world_.chance.between(0ms, 2ms),
          [pid = ended.pid](AgentHost& self) { self.listener_->leftover_ended(pid); });
  }
  later(world_.chance.between(2ms, 4ms), [](AgentHost& self) { self.listener_->leftovers_changed(); });
}

void AgentHost::worker_says(const SimulatedProcess& worker, ReportKind kind, std::uint64_t step,
                            const std::string& text) {
  if (machine().datagrams_lost_until > world_.timeline.now() && world_.chance.one_in(2)) return;
  agent::Report report;
  report.attempt = worker.attempt;
  report.message.rank = worker.rank;
  report.message.kind = kind;
  report.message.step = static_cast<std::int64_t>(step);
  report.message.text = text;
  const auto program = program_.lock();
  if (!program) return;
  program->run([weak = weak_from_this(), report = std::move(report), pid = worker.pid] {
    const auto self = weak.lock();
    if (!self) return;
    self->listener_->worker_reported(report, self->address_of(pid));
    if (self->world_.script.output && report.message.kind == ReportKind::kStep)
      self->print(report.message.rank);
  });
}

// Output that the launcher does not take in time is dropped: simulated ranks never wait for it.
void AgentHost::print(Rank rank) {
  wire::Output output;
  output.rank = rank;
  if (!link_->drops(output.stream) && !link_->hold(output.stream)) link_->send(attempt_, output, kLine);
}

void AgentHost::gpu_fails(std::int32_t pid) {
  const SimulatedProcess* worker = machine().find(pid);
  if (worker == nullptr) return;
  agent::GpuFault fault;
  fault.gpu = static_cast<std::uint32_t>(worker->local_rank.value());
  fault.xid.fault_class = agent::XidClass::kLost;
  fault.xid.text = "XID 79: GPU has fallen off the bus";
  gpu_faults_.push_back(std::move(fault));
}

// ---- Processes ----

bool AgentHost::take_refusal(FaultKind kind, Attempt attempt, int exit_code) {
  const auto found = world_.refusals.find(owner_.agent.node);
  if (found == world_.refusals.end() || found->second != kind) return false;
  world_.refusals.erase(found);
  world_.came_true(kind);
  world_.say(fmt::format("node{}: {}", owner_.agent.node, name_of(kind)));
  world_.disturbed(world_.timeline.now());
  world_.truths.at(owner_.launch)
      ->happened({.kind = kind,
                  .node = owner_.agent.node,
                  .attempt = attempt,
                  .at = world_.timeline.now(),
                  .exit_code = exit_code});
  return true;
}

std::expected<void, StartFailure> AgentHost::open(const agent::OpenAttempt& attempt) {
  attempt_ = attempt.attempt;
  plan_ = attempt.plan;
  last_lines_.clear();
  hurried_ = false;
  finishing_since_.reset();
  if (world_.chance.one_in(2) && take_refusal(FaultKind::kAttemptRefused, attempt_, 127))
    return std::unexpected(
        StartFailure{StartStep::kProgram, Error(ErrorCode::kNotFound, "cannot find train: no such program")});
  return {};
}

// Some agents find no free port.
agent::Processes::MemoryTold AgentHost::memory_told() const {
  if (plan_.neighbour_address.empty()) return {};
  const std::int32_t node = owner_.agent.node.value();
  return {.port = node % 4 == 3 ? 0 : 40000 + node, .ranks = {held_ranks_.begin(), held_ranks_.end()}};
}

void AgentHost::meet_neighbours(const std::vector<wire::Neighbour>& neighbours) const {
  for (const wire::Neighbour& each : neighbours) {
    const std::string who =
        fmt::format("node{} is told of node{} as a neighbour", owner_.agent.node, each.node);
    world_.invariants.holds(each.node != owner_.agent.node && !each.key.empty(), who + " without a key");
    world_.invariants.holds(each.port != 0 || memory_told().port != 0,
                            who + " that calls it, and listens nowhere");
  }
}

// The last worker is the one that cannot be executed, so that the others must be killed.
std::expected<AgentHost::Started, StartFailure> AgentHost::start(LocalRank local_rank,
                                                                 const wire::StartWorkers& start) {
  if (local_rank.value() + 1 == plan_.local_world_size &&
      take_refusal(FaultKind::kExecutionRefused, attempt_, 126))
    return std::unexpected(StartFailure{
        StartStep::kProgram, Error(ErrorCode::kPermission, "cannot execute train: exec format error")});
  if (local_rank == LocalRank(0)) {
    has_failed_ = false;
    meet_neighbours(start.neighbours);
  }
  const Rank rank = plan_.rank_of(local_rank);
  held_ranks_.insert(rank);
  int earlier_count = 0;
  for (const auto& each : world_.machines) earlier_count += each->count_before(owner_.launch, attempt_);
  world_.invariants.attempts_do_not_overlap(owner_.agent.node, attempt_, earlier_count);
  auto& training = world_.trainings[{owner_.launch, attempt_}];
  if (!training) training = std::make_shared<Training>(world_, attempt_, plan_.world_size);
  world_.invariants.rank_starts_once(attempt_, rank, training->has_seen(rank));
  SimulatedProcess worker;
  worker.owner = owner_;
  worker.attempt = attempt_;
  worker.rank = rank;
  worker.local_rank = local_rank;
  const std::int32_t pid = machine().start(worker);
  training->join(owner_.agent.node, rank, pid, start.resume_step);
  if (job_.input_rank == rank) stdin_.emplace(world_, owner_.launch, pid);
  world_.timeline.after(world_.chance.between(1ms, 100ms), [weak = weak_from_this(), pid] {
    const auto self = weak.lock();
    if (!self) return;
    const SimulatedProcess* process = self->machine().find(pid);
    if (process == nullptr) return;
    const char* words = self->world_.script.preemptible ? "stacks preemption" : "stacks";
    self->worker_says(*process, ReportKind::kHello, 0, words);
  });
  Started started;
  started.pid = pid;
  world_.invariants.holds(template_ != Template::kLoads, "a rank is started while the template loads");
  started.forked = template_ == Template::kReady;
  if (world_.script.warm && !started.forked) started.executed_because = "the template is gone";
  if (job_.use_gpus) started.gpu = static_cast<std::uint32_t>(local_rank.value());
  return started;
}

void AgentHost::give_input(const wire::Input& input) {
  if (!stdin_) return;
  stdin_->give(input);
  look_at_input();
  if (!input_is_read_) read_input();
}

void AgentHost::look_at_input() {
  if (!stdin_) return;
  if (const auto news = stdin_->news()) listener_->input_taken(*news);
}

// A worker that is stopped, or whose pipe is empty, reads at the next call.
void AgentHost::read_input() {
  input_is_read_ = stdin_ && stdin_->readable();
  if (!input_is_read_) return;
  const std::int32_t pid = stdin_->pid();
  later(Duration(1ms) + Duration(20ms) * (pid % 7), [pid](AgentHost& self) {
    const SimulatedProcess* worker = self.machine().find(pid);
    if (self.stdin_ && self.stdin_->pid() == pid && worker != nullptr && worker->gets_on()) {
      self.stdin_->read();
      // The agent sees room in the pipe, but not that the pipe is empty.
      if (self.stdin_->readable()) self.look_at_input();
    }
    self.read_input();
  });
}

void AgentHost::signal(std::int32_t pid, std::int32_t signal) {
  machine().signal(pid, signal);
}

void AgentHost::close() {
  stdin_.reset();
  finishing_since_.reset();
}

void AgentHost::write_memory_out() {
  world_.invariants.holds(
      std::ranges::none_of(machine().workers_of(owner_.launch, attempt_),
                           [](const SimulatedProcess* each) { return !each->held_until; }),
      "G3: what workers hold in memory is written out while they may still write it");
  world_.invariants.holds(!std::exchange(memory_is_out_, true), "G3: what workers hold is written out twice");
  later(world_.chance.between(0ms, 3s), [](AgentHost& self) {
    self.listener_->memory_written({"step 7, which was held in memory, is a checkpoint now", 7});
  });
}

// ---- TemplateHost ----

// Most templates become ready; some refuse, never settle, or end at some time.
bool AgentHost::load_template() {
  if (!world_.script.warm || template_ == Template::kRefused || template_ == Template::kReady) return false;
  if (template_ == Template::kLoads) return true;
  template_ = Template::kLoads;
  Chance& chance = world_.other_chance;
  if (chance.one_in(30)) {
    world_.disturbed(world_.timeline.now() + agent::Node::kTemplateLimit + 1s);
    return true;
  }
  const Template settled = chance.one_in(8) ? Template::kRefused : Template::kReady;
  later(chance.between(10ms, 800ms), [settled](AgentHost& self) {
    if (self.template_ == Template::kLoads) self.settle_template(settled);
  });
  if (chance.one_in(4)) {
    later(chance.between(1s, 100s), [](AgentHost& self) {
      if (self.template_ == Template::kReady) self.settle_template(Template::kNone);
    });
  }
  return true;
}

void AgentHost::settle_template(Template settled) {
  template_ = settled;
  listener_->template_settled();
}

// ---- Leftovers ----

// An agent that cannot see leftovers for long leaves them to the guardian; the next attempt may start before
// they end.
std::optional<std::vector<std::int32_t>> AgentHost::find() {
  constexpr int kMostInARow = 3;
  if (world_.script.blind && blind_count_ < kMostInARow && world_.other_chance.one_in(3)) {
    ++blind_count_;
    return std::nullopt;
  }
  blind_count_ = 0;
  return machine().leftovers_of(owner_);
}

void AgentHost::kill(std::int32_t pid) {
  machine().signal(pid, SIGKILL);
}

Leftover AgentHost::kill_and_name(std::int32_t pid) {
  machine().signal(pid, SIGKILL);
  return {.pid = pid, .name = "daemon", .uid = 0, .error = 1};
}

// ---- WorkerTalk ----

bool AgentHost::preempt(const std::string& address, Duration) {
  const SimulatedProcess* process = machine().find(std::stoi(address));
  if (process == nullptr) return false;
  const auto training = world_.trainings.find({owner_.launch, attempt_});
  if (training != world_.trainings.end()) training->second->notice();
  return true;
}

// One worker in four does not write its own stacks; the kernel's view replaces them.
void AgentHost::dump_stacks(const std::vector<Worker>& workers) {
  for (const Worker& worker : workers) {
    const bool answers = !world_.chance.one_in(4);
    later(answers ? world_.chance.between(1ms, 200ms) : Duration(1s),
          [rank = worker.rank, pid = worker.pid, answers](AgentHost& self) {
            if (self.machine().find(pid) == nullptr) return;
            self.listener_->stacks_dumped({rank, answers ? "main\n" : "The kernel's view\n"});
          });
  }
}

// ---- Logs ----

Expected<std::vector<std::string>> AgentHost::open(const wire::JobSpec&, const agent::OpenAttempt& opened) {
  if (take_refusal(FaultKind::kAttemptRefused, opened.attempt, 2))
    return failure(ErrorCode::kPermission, "cannot make the directory of the attempt: Permission denied");
  return std::vector<std::string>{};
}

AgentHost::LastWords AgentHost::last_words(LocalRank local_rank, bool) {
  LastWords words;
  if (const auto found = last_lines_.find(local_rank); found != last_lines_.end())
    words.last_lines.push_back(found->second);
  return words;
}

bool AgentHost::output_waits() const {
  return finishing_since_ || machine().disk_blocked_until > world_.timeline.now();
}

void AgentHost::hurry() {
  hurried_ = true;
}

void AgentHost::finish() {
  finishing_since_ = world_.timeline.now();
  finish_when_written();
}

// The rest of the logs reaches the launcher a moment later.
bool AgentHost::sent() {
  if (!shares_logs() && !world_.script.output)
    later(300ms, [](AgentHost& self) { self.logs_listener_->logs_sent(); });
  if (!shares_logs() && world_.script.output)
    link_->send(attempt_, wire::LogPiece{.rank = plan_.first_rank, .text = {}, .last = true}, kLine);
  return shares_logs();
}

void AgentHost::taken(Attempt attempt, const wire::LogTaken& taken) {
  world_.invariants.holds(attempt == attempt_ && taken.bytes == kLine.size(),
                          fmt::format("node{}: {} bytes of a log of attempt {} are taken", owner_.agent.node,
                                      taken.bytes, attempt));
  logs_listener_->logs_sent();
}

void AgentHost::finish_when_written() {
  later(world_.chance.between(0ms, 5ms), [](AgentHost& self) {
    if (!self.finishing_since_) return;
    const TimePoint now = self.world_.timeline.now();
    const Duration patience = self.hurried_ ? 200ms : self.job_.limits.output_stall;
    const TimePoint end = std::min(self.machine().disk_blocked_until, *self.finishing_since_ + patience);
    if (now >= end) {
      agent::LogLosses losses;
      if (self.machine().disk_blocked_until > now) losses.lines = 3;
      self.finishing_since_.reset();
      return self.logs_listener_->logs_finished(losses);
    }
    self.later(std::min<Duration>(end - now, 100ms), [](AgentHost& later) { later.finish_when_written(); });
  });
}

// ---- StoreHost, Vitals ----

Expected<std::int32_t> AgentHost::open(const wire::JobSpec&, const wire::PrepareAttempt& plan) {
  return plan.host_store ? 29500 : 0;
}

// Simulated machines have no network except their connections to the launcher.
void AgentHost::reach(const wire::JobSpec&, const wire::StartWorkers&,
                      std::function<void(const Status&)> done) {
  later(world_.chance.between(0ms, 2ms), [done = std::move(done), attempt = attempt_](const AgentHost& self) {
    if (self.attempt_ == attempt) done({});
  });
}

// The driver does not answer at once.
std::optional<std::string> AgentHost::held_gpu_memory() {
  const TimePoint now = world_.timeline.now();
  if (machine().gpu_memory_held_until <= now) return "";
  world_.disturbed(now + 1s);
  if (world_.other_chance.one_in(4)) return std::nullopt;
  return "GPU 0: 3.1 GiB";
}

std::map<Rank, agent::ProcessState> AgentHost::look(const std::map<Rank, std::int32_t>& pids) {
  std::map<Rank, agent::ProcessState> states;
  for (const auto& [rank, pid] : pids) {
    const SimulatedProcess* process = machine().find(pid);
    if (process == nullptr || process->pace == Pace::kRuns) continue;
    states[rank] =
        process->pace == Pace::kStopped ? agent::ProcessState::kStopped : agent::ProcessState::kFrozen;
  }
  return states;
}

}  // namespace muster::simulation
