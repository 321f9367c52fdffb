// The process that ends a job's processes on this node when the agent cannot.
//
// Forked before anything else, it waits on a pipe that only the agent holds open. When the pipe ends without
// a goodbye, the agent was killed: the guardian kills whatever has the job's and the node's id in its
// environment, sessions of their own or not, removes the run directory, and exits. It has a session of its
// own, ignores every signal, and holds no other descriptor than the pipe and stderr.
#pragma once

#include <string>
#include <sys/types.h>

#include "common/base/file.h"
#include "common/base/ids.h"

namespace muster::agent {

class Guardian {
 public:
  // Forks. Only while this process has one thread.
  static Guardian start();
  pid_t pid() const { return pid_; }  // 0 once it has ended: another process may have its pid then
  void ended() { pid_ = 0; }

  void guard_job(const std::string& job_id, NodeId node);
  void guard_run_directory(const std::string& directory);
  // The agent ends in order: the guardian has nothing to do.
  void goodbye();

 private:
  Guardian(pid_t pid, UniqueFd pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  void tell(const std::string& name, const std::string& value);

  pid_t pid_;
  UniqueFd pipe_;
};

}  // namespace muster::agent
