// The process that ends a job's processes on this node when the agent cannot. An agent that serves several
// jobs, one after the other, has one guardian for all.
//
// The guardian waits on a pipe that only the agent holds open. If the pipe ends without a goodbye, the agent
// was killed, or it left processes that it could not kill. Then the guardian kills every process with the
// job's and the node's id in its environment, whatever its session, removes the run directory, and exits. The
// guardian has its own process group in the agent's session, ignores every signal, and holds no descriptor
// except the pipe and stderr.
#pragma once

#include <string>
#include <sys/types.h>

#include "common/base/file.h"
#include "common/base/ids.h"

namespace muster::agent {

class Guardian {
 public:
  Guardian() = default;
  // The agent exits normally: the guardian does nothing, unless inherit() was called.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  // Forks the guardian unless it runs. Call while this process has one thread. Without a guardian, the other
  // calls do nothing.
  Status start();
  // 0 before start(), and once the guardian has ended, because another process can have its pid then.
  pid_t pid() const { return pid_; }
  void ended() { pid_ = 0; }

  void guard_job(const std::string& job_id, NodeId node);
  // The job's ranks are forked from the template of this earlier job, and so have this earlier job's id.
  void guard_template(const std::string& job_id);
  // The job is over, and has left nothing. The guardian forgets it when guard_job() names the next job.
  void job_is_over();
  // The guardian spares agents of the same node and host that have this incarnation or a later one, and the
  // processes that they started.
  void keep_from(Incarnation incarnation);
  // The guardian also removes the memory that the MPI ranks of this incarnation of the agent share.
  void guard_segments(Incarnation incarnation);
  void guard_run_directory(const std::string& directory);
  // The agent exits normally but leaves processes: the guardian acts as if the agent had been killed.
  void inherit() { inherits_ = true; }
  bool inherits() const { return inherits_; }

 private:
  void tell(const std::string& name, const std::string& value);

  pid_t pid_ = 0;
  UniqueFd pipe_;
  std::string run_directory_;  // what this guardian has been told
  std::string next_;           // for the guardian, together with the next entry: each write wakes it
  bool inherits_ = false;
};

}  // namespace muster::agent
