// The process that ends a job's processes on this node when the agent cannot.
//
// The guardian waits on a pipe that only the agent holds open. When the pipe ends without a goodbye, the
// agent was killed, or could not kill what it leaves: the guardian kills every process that has the job's and
// the node's id in its environment, with a session of its own or not, removes the run directory, and exits.
// The guardian has a process group of its own in the agent's session, ignores every signal, and holds no
// descriptor but the pipe and stderr.
#pragma once

#include <string>
#include <sys/types.h>

#include "common/base/file.h"
#include "common/base/ids.h"

namespace muster::agent {

class Guardian {
 public:
  Guardian() = default;
  // The agent ends in order: the guardian has nothing to do, unless it is to inherit().
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  // Forks. Only while this process has one thread. Without a guardian what it is told goes nowhere.
  Status start();
  // 0 before, and once it has ended: another process may have its pid then.
  pid_t pid() const { return pid_; }
  void ended() { pid_ = 0; }

  void guard_job(const std::string& job_id, NodeId node);
  // What a later agent of the same node and host started is not this guardian's, from this incarnation on.
  void keep_from(Incarnation incarnation);
  // Memory that MPI ranks share, of this incarnation of the agent.
  void guard_segments(Incarnation incarnation);
  void guard_run_directory(const std::string& directory);
  // The agent ends in order and leaves processes: the guardian takes its end as if it had been killed.
  void inherit() { inherits_ = true; }

 private:
  void tell(const std::string& name, const std::string& value);

  pid_t pid_ = 0;
  UniqueFd pipe_;
  bool inherits_ = false;
};

}  // namespace muster::agent
