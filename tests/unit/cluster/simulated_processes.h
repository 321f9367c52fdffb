// The processes of a job on one simulated node: workers, and what they leave behind. They outlive their agent
// until its guardian kills them.
//
// What a worker does is drawn when it starts: it works, then exits with 0; some ignore TERM, some exit with 0
// on it, some have a child that stays when they end, and some of these children survive SIGKILL, where that
// is wanted. Also the ground truth: who lives, who succeeded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/process.h"
#include "tests/unit/cluster/timeline.h"

namespace muster::simulation {

class Processes {
 public:
  using OnExit = std::function<void(std::int32_t pid, int exit_code, int signal)>;
  // `work`: how long a worker takes before it succeeds.
  Processes(Timeline& timeline, Duration work, bool some_survive)
      : timeline_(timeline), work_(work), some_survive_(some_survive) {}
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  std::int32_t start_worker(Attempt attempt, Rank rank);
  // Takes effect a little later, if at all.
  void signal(std::int32_t pid, int signal);
  // Kills what workers left behind; `done` when none is left that was not named before.
  void kill_leftovers(std::function<void()> done);
  void kill_all();
  bool hangs(std::int32_t pid) const;
  void hang(std::int32_t pid);  // it ends only when it is killed, or told to
  void end_worker(std::int32_t pid, int exit_code, int signal);
  void kill_for_memory(std::int32_t pid);  // as the kernel does, which counts it
  bool killed_for_memory(std::int32_t pid) const { return out_of_memory_.contains(pid); }
  // Who is told of a worker's end; nobody once its agent is gone.
  void set_parent(OnExit on_exit) { on_exit_ = std::move(on_exit); }

  // Those that survived SIGKILL, and have been named to nobody yet.
  std::vector<Leftover> name_survivors();
  bool has_unnamed_survivors() const;

  // Without those that survive SIGKILL.
  int living_count() const;
  int living_count_but(Attempt attempt) const;
  std::vector<std::pair<std::int32_t, Rank>> living_workers(Attempt attempt) const;  // and their pids
  const std::set<Rank>& succeeded(Attempt attempt) { return succeeded_[attempt]; }

 private:
  struct Process {
    Attempt attempt;
    Rank rank;
    bool ignores_term = false;  // and does no more work then
    bool hangs = false;
    bool exits_on_term = false;
    bool is_child = false;  // of a worker: stays when that ends
    bool survives = false;  // SIGKILL
    bool named = false;     // as one that does
  };

  Timeline& timeline_;
  Duration work_;
  bool some_survive_;
  OnExit on_exit_;
  std::int32_t last_pid_ = 100;
  std::map<std::int32_t, Process> living_;
  std::map<Attempt, std::set<Rank>> succeeded_;
  std::set<std::int32_t> out_of_memory_;
};

}  // namespace muster::simulation
