#include "tests/simulation/training.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "tests/simulation/agent_host.h"

namespace muster::simulation {

using namespace std::chrono_literals;
using wire::ReportKind;

namespace {

// The longest delay.
constexpr Duration kReportDelay = 20ms;
constexpr Duration kStallDelay = 200ms;

}  // namespace

Training::Training(World& world, Attempt attempt, int world_size)
    : world_(world), began_(world.timeline.now()), attempt_(attempt), world_size_(world_size) {}

SimulatedProcess* Training::process_of(Rank rank) {
  const auto found = seats_.find(rank);
  if (found == seats_.end()) return nullptr;
  return world_.machines[static_cast<std::size_t>(found->second.node.value())]->find(found->second.pid);
}

void Training::join(NodeId node, Rank rank, std::int32_t pid, std::optional<std::uint64_t> resume_step) {
  seats_[rank] = {node, pid};
  if (rank == Rank(0)) node_of_rank_0_ = node;
  step_ = resume_step.value_or(0);
  if (static_cast<int>(seats_.size()) == world_size_ && !ticking_) tick_after(world_.script.step);
}

void Training::ended(Rank rank, int exit_code, int signal) {
  seats_.erase(rank);
  ended_.insert(rank);
  if (exit_code == 0 && signal == 0) succeeded_.insert(rank);
}

std::string Training::last_line_of(Rank rank) const {
  const auto found = last_lines_.find(rank);
  return found == last_lines_.end() ? "" : found->second;
}

// Every rank is present, and nothing blocks the next step.
bool Training::gets_on() {
  if (static_cast<int>(seats_.size()) != world_size_) return false;
  return std::ranges::all_of(seats_, [this](const auto& entry) {
    const auto& [rank, seat] = entry;
    const Machine& home = *world_.machines[static_cast<std::size_t>(seat.node.value())];
    const SimulatedProcess* process = process_of(rank);
    return process != nullptr && process->gets_on() && home.disk_blocked_until <= world_.timeline.now();
  });
}

void Training::tick_after(Duration delay) {
  ticking_ = true;
  world_.timeline.after(delay, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->tick();
  });
}

void Training::tick() {
  if (seats_.empty() || finishing_ || fenced_) return;
  if (gets_on()) {
    ++step_;
    ++steps_made_;
    report_step();
    world_.progressed();
    if (step_ % static_cast<std::uint64_t>(world_.script.steps_per_commit) == 0 && !commit()) return;
    if (world_.may_end) return finish();
  }
  tick_after(world_.script.step);
}

// Reports all ranks of a node together, a little later than those of other nodes.
void Training::report_step() {
  std::map<NodeId, std::vector<Rank>> by_node;
  for (const auto& [rank, seat] : seats_) by_node[seat.node].push_back(rank);
  for (auto& [node, ranks] : by_node) {
    world_.timeline.after(world_.chance.between(0ms, kReportDelay),
                          [self = shared_from_this(), ranks = std::move(ranks), step = step_] {
                            for (const Rank rank : ranks) self->report(rank, ReportKind::kStep, step, "");
                          });
  }
}

void Training::report(Rank rank, ReportKind kind, std::uint64_t step, const std::string& text) {
  const SimulatedProcess* process = process_of(rank);
  if (process == nullptr) return;
  if (const auto host = world_.hosts.find(process->owner); host != world_.hosts.end()) {
    if (const auto agent = host->second.lock()) agent->worker_says(*process, kind, step, text);
  }
}

bool Training::commit() {
  if (world_.directory.is_fenced(attempt_)) {
    fenced_ = true;
    report(Rank(0), ReportKind::kFenced, step_, "a newer attempt has begun");
    return false;
  }
  if (world_.script.checkpoints) world_.directory.commit(attempt_, step_);
  report(Rank(0), ReportKind::kCommitted, step_, "");
  return true;
}

void Training::finish() {
  finishing_ = true;
  for (const auto& [rank, seat] : seats_) {
    world_.timeline.after(world_.chance.between(1ms, 200ms), [self = shared_from_this(), rank = rank] {
      const SimulatedProcess* process = self->process_of(rank);
      if (process == nullptr || !process->gets_on()) return;
      const auto node = self->seats_.at(rank).node;
      self->world_.machines[static_cast<std::size_t>(node.value())]->end(process->pid, 0, 0);
    });
  }
}

void Training::stall(Rank culprit) {
  if (SimulatedProcess* process = process_of(culprit)) process->hangs = true;
  const bool wait_for_another = std::ranges::any_of(seats_, [&](const auto& entry) {
    const SimulatedProcess* process = process_of(entry.first);
    return entry.first != culprit && (process == nullptr || !process->gets_on());
  });
  if (wait_for_another) return;
  ++step_;
  world_.steps_told_at = world_.timeline.now() + kStallDelay;
  for (const auto& [rank, seat] : seats_) {
    if (rank == culprit) continue;
    // After their reports of the previous step.
    world_.timeline.after(world_.chance.between(kReportDelay, kStallDelay),
                          [self = shared_from_this(), rank = rank, step = step_] {
                            self->report(rank, ReportKind::kStep, step, "");
                          });
  }
}

// Ranks that lose a peer fail a little later: these victims must not be blamed. Or they wait for ever. Ranks
// that do not name a peer fail late enough for clocks to tell which was first.
void Training::peers_fail(bool with_words) {
  const bool hang = !with_words && world_.chance.one_in(3);
  const bool speak =
      with_words || world_.chance.one_in(2) || world_.timeline.now() < world_.clocks_unsure_until;
  const Duration least = speak ? Duration(1ms) : world_.clock_error;
  for (const auto& [rank, seat] : seats_) {
    world_.timeline.after(
        world_.chance.between(least, least + 60ms), [self = shared_from_this(), rank = rank, hang, speak] {
          SimulatedProcess* process = self->process_of(rank);
          if (process == nullptr || process->pace != Pace::kRuns || process->held_until) return;
          if (hang) {
            process->hangs = true;
            return;
          }
          if (speak) self->last_lines_[rank] = "RuntimeError: Connection closed by peer [10.0.0.1]:4711";
          const auto node = self->seats_.at(rank).node;
          self->world_.machines[static_cast<std::size_t>(node.value())]->end(process->pid, 1, 0);
        });
  }
}

void Training::notice() {
  if (!std::exchange(noticed_, true)) save_and_leave_after(world_.chance.between(100ms, 300ms));
}

void Training::save_and_leave_after(Duration delay) {
  world_.timeline.after(delay, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->save_and_leave();
  });
}

// The ranks agree on the step that all have made: rank 0 commits it, and all ranks leave. If one rank is
// stuck, the others wait for it; a rank that has made its last step ignores the notice.
void Training::save_and_leave() {
  if (seats_.empty() || finishing_ || fenced_) return;
  if (!gets_on()) return save_and_leave_after(100ms);
  finishing_ = true;
  report(Rank(0), ReportKind::kSaving, step_, "");
  if (!commit()) return;
  saved_ = true;
  for (const auto& [rank, seat] : seats_) {
    world_.timeline.after(world_.chance.between(1ms, 200ms), [self = shared_from_this(), rank = rank] {
      const SimulatedProcess* process = self->process_of(rank);
      if (process == nullptr || !process->gets_on()) return;
      self->report(rank, ReportKind::kPreempted, self->step_, "");
      const auto node = self->seats_.at(rank).node;
      self->world_.machines[static_cast<std::size_t>(node.value())]->end(process->pid, 75, 0);
    });
  }
}

}  // namespace muster::simulation
