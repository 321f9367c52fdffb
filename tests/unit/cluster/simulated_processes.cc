#include "tests/unit/cluster/simulated_processes.h"

#include <algorithm>
#include <csignal>

namespace muster::simulation {

using namespace std::chrono_literals;

std::int32_t Processes::start_worker(Attempt attempt, Rank rank) {
  const std::int32_t pid = ++last_pid_;
  Process worker{.attempt = attempt, .rank = rank};
  worker.ignores_term = timeline_.one_in(5);
  worker.exits_on_term = timeline_.one_in(5);
  if (timeline_.one_in(4)) {
    Process child{.attempt = attempt, .rank = rank, .is_child = true};
    child.survives = some_survive_ && timeline_.one_in(3);
    living_[++last_pid_] = child;
  }
  living_[pid] = worker;
  timeline_.after(work_ + timeline_.between(0ms, 200ms), [this, pid] {
    if (const auto found = living_.find(pid); found != living_.end() && !found->second.hangs)
      end_worker(pid, 0, 0);
  });
  return pid;
}

void Processes::signal(std::int32_t pid, int signal) {
  const auto found = living_.find(pid);
  if (found == living_.end() || signal == SIGCONT || signal == SIGUSR1) return;
  if (signal != SIGKILL && found->second.ignores_term) return hang(pid);
  const bool exits = signal != SIGKILL && found->second.exits_on_term;
  const Duration delay = signal == SIGKILL ? timeline_.between(0ms, 5ms) : timeline_.between(1ms, 500ms);
  timeline_.after(delay, [this, pid, exits, signal] { end_worker(pid, 0, exits ? 0 : signal); });
}

void Processes::end_worker(std::int32_t pid, int exit_code, int signal) {
  const auto found = living_.find(pid);
  if (found == living_.end()) return;
  const Process worker = found->second;
  living_.erase(found);
  if (exit_code == 0 && signal == 0) succeeded_[worker.attempt].insert(worker.rank);
  if (on_exit_) on_exit_(pid, exit_code, signal);
}

void Processes::kill_for_memory(std::int32_t pid) {
  out_of_memory_.insert(pid);
  end_worker(pid, 0, SIGKILL);
}

void Processes::kill_leftovers(std::function<void()> done) {
  timeline_.after(timeline_.between(0ms, 10ms), [this, done = std::move(done)] {
    std::erase_if(living_, [](const auto& entry) { return entry.second.is_child && !entry.second.survives; });
    if (!has_unnamed_survivors()) done();
  });
}

std::vector<Leftover> Processes::name_survivors() {
  std::vector<Leftover> survivors;
  for (auto& [pid, process] : living_) {
    if (!process.survives || process.named) continue;
    process.named = true;
    survivors.push_back({.pid = pid, .name = "daemon", .uid = 0, .error = 1});
  }
  return survivors;
}

bool Processes::has_unnamed_survivors() const {
  return std::ranges::any_of(living_,
                             [](const auto& entry) { return entry.second.survives && !entry.second.named; });
}

int Processes::living_count() const {
  return static_cast<int>(
      std::ranges::count_if(living_, [](const auto& entry) { return !entry.second.survives; }));
}

bool Processes::hangs(std::int32_t pid) const {
  const auto found = living_.find(pid);
  return found != living_.end() && found->second.hangs;
}

void Processes::hang(std::int32_t pid) {
  if (const auto found = living_.find(pid); found != living_.end()) found->second.hangs = true;
}

void Processes::kill_all() {
  std::erase_if(living_, [](const auto& entry) { return !entry.second.survives; });
}

int Processes::living_count_but(Attempt attempt) const {
  return static_cast<int>(std::ranges::count_if(living_, [attempt](const auto& entry) {
    return entry.second.attempt != attempt && !entry.second.survives;
  }));
}

std::vector<std::pair<std::int32_t, Rank>> Processes::living_workers(Attempt attempt) const {
  std::vector<std::pair<std::int32_t, Rank>> workers;
  for (const auto& [pid, process] : living_) {
    if (process.attempt == attempt && !process.is_child) workers.emplace_back(pid, process.rank);
  }
  return workers;
}

}  // namespace muster::simulation
