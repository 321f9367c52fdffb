#include "tests/simulation/machine.h"

#include <algorithm>
#include <csignal>

namespace muster::simulation {

using namespace std::chrono_literals;

// Pids are unique over all machines, since a launcher may have all agents on its own machine.
Machine::Machine(Timeline& timeline, Chance& chance, const Script& script, int number)
    : timeline_(timeline),
      chance_(chance),
      script_(script),
      clock_(timeline, chance.between(0s, 48h), script.drift * (chance.below(2001) - 1000) / 1000),
      last_pid_((number + 1) * 1'000'000) {}

std::int32_t Machine::start(SimulatedProcess worker) {
  worker.pid = ++last_pid_;
  worker.ignores_term = chance_.one_in(5);
  worker.exits_on_term = chance_.one_in(5);
  if (chance_.one_in(4)) {
    SimulatedProcess child = worker;
    child.pid = ++last_pid_;
    child.parent = worker.pid;
    child.survives = script_.some_survive_sigkill && chance_.one_in(3);
    living_[child.pid] = child;
  }
  living_[worker.pid] = worker;
  return worker.pid;
}

SimulatedProcess* Machine::find(std::int32_t pid) {
  const auto found = living_.find(pid);
  return found == living_.end() ? nullptr : &found->second;
}

void Machine::signal(std::int32_t pid, int signal) {
  SimulatedProcess* process = find(pid);
  if (process == nullptr || process->survives) return;
  if (signal == SIGCONT && process->pace == Pace::kStopped) {
    process->pace = Pace::kRuns;
    if (process->told_term) this->signal(pid, SIGTERM);
  }
  if (signal != SIGKILL && signal != SIGTERM && signal != SIGINT) return;
  if (signal == SIGKILL) {
    const Duration delay = chance_.between(0ms, 5ms);
    TimePoint when = timeline_.now() + delay;
    if (process->held_until) when = std::max(when, *process->held_until);
    timeline_.at(when, [this, pid] { end(pid, 0, SIGKILL); });
    return;
  }
  if (signal == SIGINT && pid % 4 == 0) return;  // ignores it, as children of a script's `&` do
  process->told_term = true;
  if (process->ignores_term || process->pace != Pace::kRuns || process->held_until) return;
  timeline_.after(chance_.between(1ms, 500ms), [this, pid, signal, exits = process->exits_on_term] {
    const SimulatedProcess* later = find(pid);
    if (later != nullptr && later->pace == Pace::kRuns) end(pid, 0, exits ? 0 : signal);
  });
}

void Machine::end(std::int32_t pid, int exit_code, int signal) {
  const auto found = living_.find(pid);
  if (found == living_.end()) return;
  if (found->second.held_until && *found->second.held_until > timeline_.now()) return;
  const SimulatedProcess ended = found->second;
  living_.erase(found);
  if (on_end_) on_end_(ended, exit_code, signal);
}

void Machine::kill_all(const Owner& owner) {
  std::vector<std::int32_t> pids;
  for (const auto& [pid, process] : living_) {
    if (process.owner == owner) pids.push_back(pid);
  }
  for (const std::int32_t pid : pids) {
    if (SimulatedProcess* doomed = find(pid); doomed == nullptr || doomed->survives) continue;
    if (find(pid)->held_until) {
      signal(pid, SIGKILL);
    } else {
      end(pid, 0, SIGKILL);
    }
  }
}

int Machine::living_count(int launch) const {
  return static_cast<int>(std::ranges::count_if(living_, [&](const auto& entry) {
    const SimulatedProcess& process = entry.second;
    return process.owner.launch == launch && !process.survives && !process.held_until;
  }));
}

int Machine::count_before(int launch, Attempt attempt) const {
  return static_cast<int>(std::ranges::count_if(living_, [&](const auto& entry) {
    const SimulatedProcess& process = entry.second;
    return process.owner.launch == launch && !process.survives && process.attempt < attempt;
  }));
}

std::vector<std::int32_t> Machine::leftovers_of(const Owner& owner) const {
  std::vector<std::int32_t> pids;
  for (const auto& [pid, process] : living_) {
    if (process.owner == owner && process.parent && !living_.contains(*process.parent)) pids.push_back(pid);
  }
  return pids;
}

std::vector<SimulatedProcess*> Machine::workers_of(int launch, Attempt attempt) {
  std::vector<SimulatedProcess*> workers;
  for (auto& [pid, process] : living_) {
    if (process.owner.launch == launch && process.attempt == attempt && process.is_worker())
      workers.push_back(&process);
  }
  return workers;
}

}  // namespace muster::simulation
