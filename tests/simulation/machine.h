// One simulated machine: its clock, its disk, and its workers' processes. These outlive their agent until its
// guardian kills them.
//
// Draws a worker's reaction to TERM when it starts: some ignore TERM, some exit with 0, some leave a child,
// and some children survive SIGKILL if the script says so. Knows which processes live, reports their ends,
// and decides nothing else. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "tests/simulation/program.h"
#include "tests/simulation/script.h"

namespace muster::simulation {

// The owner of a process: the agent that started it, and its launch.
struct Owner {
  int launch = 0;
  AgentId agent;
  auto operator<=>(const Owner&) const = default;
};

enum class Pace { kRuns, kStopped, kFrozen };

struct SimulatedProcess {
  std::int32_t pid = 0;
  Owner owner;
  Attempt attempt;
  Rank rank;
  LocalRank local_rank;
  std::optional<std::int32_t>
      parent{};  // of a worker's child; the child is a leftover once its parent has ended
  bool ignores_term = false;
  bool exits_on_term = false;
  bool survives = false;   // survives SIGKILL for ever, as another user's process does
  bool told_term = false;  // it got TERM and does no more work
  bool hangs = false;
  Pace pace = Pace::kRuns;
  std::optional<TimePoint> held_until{};  // stuck in the kernel: SIGKILL ends it only then
  bool out_of_memory = false;             // the kernel killed it for lack of memory
  bool is_worker() const { return !parent; }
  bool gets_on() const { return pace == Pace::kRuns && !hangs && !told_term && !held_until; }
};

class Machine {
 public:
  using OnEnd = std::function<void(const SimulatedProcess& ended, int exit_code, int signal)>;
  // `number`: the node's number.
  Machine(Timeline& timeline, Chance& chance, const Script& script, int number);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  MachineClock& clock() { return clock_; }
  // Called at the end of each process.
  void set_on_end(OnEnd on_end) { on_end_ = std::move(on_end); }

  std::int32_t start(SimulatedProcess worker);
  // Takes effect a little later, or not at all.
  void signal(std::int32_t pid, int signal);
  void end(std::int32_t pid, int exit_code, int signal);
  SimulatedProcess* find(std::int32_t pid);
  // Processes of one agent, without those that survive SIGKILL.
  void kill_all(const Owner& owner);

  const std::map<std::int32_t, SimulatedProcess>& living() const { return living_; }
  // Processes of a launch, without those that survive SIGKILL or are stuck in the kernel.
  int living_count(int launch) const;
  // Processes of a launch's earlier attempts, without those that survive SIGKILL.
  int count_before(int launch, Attempt attempt) const;
  // The agent's leftovers.
  std::vector<std::int32_t> leftovers_of(const Owner& owner) const;
  std::vector<SimulatedProcess*> workers_of(int launch, Attempt attempt);

  // Faults of the machine.
  TimePoint disk_blocked_until{};
  TimePoint datagrams_lost_until{};
  TimePoint gpu_memory_held_until{};

 private:
  Timeline& timeline_;
  Chance& chance_;
  const Script& script_;
  MachineClock clock_;
  OnEnd on_end_;
  std::int32_t last_pid_;
  std::map<std::int32_t, SimulatedProcess> living_;
};

}  // namespace muster::simulation
