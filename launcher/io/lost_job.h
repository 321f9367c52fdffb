// The ranks and agents that a job has left on this machine. Its launcher was killed, and they would run until
// the controller grace has passed.
//
// Processes are found as `launch status` finds them: by the id of the job in their environment. An agent is
// found as the leader of their session. Blocking.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/process.h"

namespace muster::launcher {

class LostJob {
 public:
  // The launcher of the job must be gone.
  explicit LostJob(std::string job) : job_(std::move(job)) { look(); }

  // Processes of the job, without its agents.
  std::size_t process_count() const { return processes_.size(); }
  // Returns whether the job's launcher was given this checkpoint directory. If only the program names the
  // directory, its owner is rank 0, and the launcher may live although that rank is gone.
  bool was_given(const std::string& checkpoint_directory) const;
  // Ends all processes of the job, and waits until they are gone. Tells the agents to leave, as they do after
  // the controller grace: they stop their workers, give them their grace, and kill whatever is left. Without
  // an agent, tells the processes. After `grace`, kills them all.
  //
  // `signals` is a signalfd: INT, TERM, HUP or QUIT ends the wait. Returns the number of that signal, or 0.
  // Returns kFenced, and names a process, if that process cannot be ended.
  Expected<int> end(Duration grace, int signals);

 private:
  bool look();
  std::optional<Leftover> forbidden() const;
  void terminate();
  void kill_all() const;
  void tell(pid_t pid);

  std::string job_;
  std::vector<pid_t> processes_;
  std::set<pid_t> agents_;  // of all processes that have been seen
  std::set<pid_t> told_;    // those that got SIGTERM
};

// Returns an agent on this machine that a launcher of this user has left. Only this user and root can see to
// which job it belongs.
std::optional<pid_t> lost_agent_of(uid_t user);

}  // namespace muster::launcher
