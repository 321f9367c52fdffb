// The guardian: a process that ends a job's processes on this node if the agent cannot do it any more. An
// agent that serves several jobs, one after the other, has one guardian for all of them.
//
// The guardian waits at a pipe whose other end only the agent holds. The agent says goodbye before it ends
// normally. If the pipe ends without a goodbye, the agent was killed, or it has left processes that it could
// not kill. Then the guardian kills every process that has the ids of the job and of the node in its
// environment, no matter which session it is in. After that it removes the run directory and exits. The
// guardian is in the agent's session, but has its own process group. It ignores every signal that can be
// ignored. It holds no descriptors except the pipe and stderr.
#pragma once

#include <string>
#include <sys/types.h>

#include "common/base/file.h"
#include "common/base/ids.h"

namespace muster::agent {

class Guardian {
 public:
  Guardian() = default;
  // The destructor runs when the agent exits normally. The guardian then does nothing, unless inherit() was
  // called.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  // Forks the guardian if it does not run yet. Call this while this process has only one thread. If there is
  // no guardian, the other functions do nothing.
  Status start();
  // Returns the pid of the guardian. It is 0 before start(). It is also 0 once the guardian has ended,
  // because another process can have its pid then.
  pid_t pid() const { return pid_; }
  void ended() { pid_ = 0; }

  void guard_job(const std::string& job_id, NodeId node);
  // The ranks of this job are forked from a template that an earlier job has loaded. So they have the id of
  // the earlier job in their environment, and `job_id` is that id.
  void guard_template(const std::string& job_id);
  // Tells the guardian that the job is over and has left no processes. The guardian keeps the job in mind
  // until guard_job() names the next one.
  void job_is_over();
  // From now on the guardian does not kill agents of this node that run on this host with incarnation
  // `incarnation` or a later one. It does not kill the processes of these agents either.
  void keep_from(Incarnation incarnation);
  // From now on the guardian also removes the memory that this agent's MPI ranks share. `incarnation` is that
  // of this agent.
  void guard_segments(Incarnation incarnation);
  void guard_run_directory(const std::string& directory);
  // Call this if the agent exits normally but leaves processes. The guardian then acts as if the agent had
  // been killed.
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
