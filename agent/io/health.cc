#include "agent/io/health.h"

namespace muster::agent {

Health::Health(const wire::JobSpec& job)
    : hang_({.heartbeat = from_ns(job.heartbeat_limit_ns), .hang = from_ns(job.hang_limit_ns)}) {}

void Health::add(Rank rank, pid_t pid, TimePoint now) {
  hang_.add(rank, now);
  pids_[rank] = pid;
}

void Health::remove(Rank rank) {
  hang_.remove(rank);
  pids_.erase(rank);
}

std::vector<wire::WorkerStalled> Health::look(TimePoint now) {
  return hang_.look(states_.look(pids_), now);
}

}  // namespace muster::agent
