// How the workers of one attempt are doing: looks at their processes once a second and has HangWatch judge.
//
// The agent tells it who lives and what workers report, and sends on what it answers. Decides nothing. One
// thread.
#pragma once

#include <map>
#include <optional>
#include <sys/types.h>
#include <vector>

#include "agent/core/hang.h"
#include "agent/io/process_states.h"

namespace muster::agent {

class Health {
 public:
  explicit Health(const wire::JobSpec& job);

  void add(Rank rank, pid_t pid, TimePoint now);
  // It has ended, or has been told to.
  void remove(Rank rank);
  void on(const Report& report, TimePoint now) { hang_.on(report, now); }
  // To be called when next_deadline() has come, after the reports that wait.
  std::vector<wire::WorkerStalled> look(TimePoint now);
  std::optional<TimePoint> next_deadline() const { return hang_.next_deadline(); }

 private:
  HangWatch hang_;
  ProcessStates states_;
  std::map<Rank, pid_t> pids_;
};

}  // namespace muster::agent
