// One simulated machine: its clock, its disk, and the processes that workers are. They outlive their agent
// until its guardian kills them.
//
// What a worker does when it is told to end is drawn when it starts: some ignore TERM, some exit with 0 on
// it, some have a child that stays when they end, and some of these survive SIGKILL, where that is wanted.
// The truth about who lives; tells what ends, and decides nothing else. One thread.
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

// Whose a process is: the agent that started it, of which launch.
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
  std::optional<std::int32_t> parent{};  // of a child that workers leave; a leftover once that has ended
  bool ignores_term = false;
  bool exits_on_term = false;
  bool survives = false;   // SIGKILL, for ever: another user's
  bool told_term = false;  // and does no more work
  bool hangs = false;
  Pace pace = Pace::kRuns;
  std::optional<TimePoint> held_until{};  // in the kernel: SIGKILL ends it then
  bool out_of_memory = false;             // the kernel has killed it for that
  bool is_worker() const { return !parent; }
  bool gets_on() const { return pace == Pace::kRuns && !hangs && !told_term && !held_until; }
};

class Machine {
 public:
  using OnEnd = std::function<void(const SimulatedProcess& ended, int exit_code, int signal)>;
  // `number`: of the node.
  Machine(Timeline& timeline, Chance& chance, const Script& script, int number);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  MachineClock& clock() { return clock_; }
  // Who is told of each end.
  void set_on_end(OnEnd on_end) { on_end_ = std::move(on_end); }

  std::int32_t start(SimulatedProcess worker);
  // Takes effect a little later, if at all.
  void signal(std::int32_t pid, int signal);
  void end(std::int32_t pid, int exit_code, int signal);
  SimulatedProcess* find(std::int32_t pid);
  // Of one agent; without those that survive SIGKILL.
  void kill_all(const Owner& owner);

  const std::map<std::int32_t, SimulatedProcess>& living() const { return living_; }
  // Of a launch, without those that survive SIGKILL or that the kernel holds.
  int living_count(int launch) const;
  // Of a launch's attempts before that one, without those that survive SIGKILL.
  int count_before(int launch, Attempt attempt) const;
  // Leftovers of that agent's.
  std::vector<std::int32_t> leftovers_of(const Owner& owner) const;
  std::vector<SimulatedProcess*> workers_of(int launch, Attempt attempt);

  // Its faults.
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
