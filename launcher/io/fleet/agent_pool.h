// Agent processes that stay when their job is over, and take part in the next one. So the trials of a sweep
// need no new process for their agents.
//
// Each process waits on a socket, its door. The pool sends the job's control socket and log file through the
// door, and the process answers when it has left the job. The pool can send the next job while the process is
// still leaving. This saves the time that the answer takes. But if the process fails then, the next job loses
// its agent. The pool forgets a process that fails or is killed. After 100 jobs it closes a process's door,
// and the process exits. One thread, the executor's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/ids.h"
#include "common/net/asio.h"
#include "launcher/io/fleet/bootstrap.h"

namespace muster::launcher {

class AgentPool {
 public:
  // `descriptors` is the limit on descriptors that new processes get.
  AgentPool(asio::any_io_executor executor, std::string agent_program, const rlimit& descriptors);
  AgentPool(const AgentPool&) = delete;
  AgentPool& operator=(const AgentPool&) = delete;

  struct Job {
    std::string id;
    AgentId agent;
    int control = -1;            // the agent's end of a socketpair
    int log = -1;                // for the agent's stdout and stderr
    std::function<void()> left;  // called when the agent has left the job, unless its process ends
  };
  // Gives the job to a process of the pool that waits, or to one that will soon wait. If there is none,
  // starts a new process. Returns the pid.
  Expected<pid_t> hire(Job job);
  // Call when the processes of this job begin to leave it. From then on, hire() can give them the next job.
  void expect(const std::string& job_id);
  // Call when these child processes have ended.
  void hear_ends(const std::vector<ChildEnd>& ends);
  // Returns the pids of all processes of the pool. Some of them wait for a job, others work for one.
  std::set<pid_t> pids() const;

 private:
  struct Process {
    asio::posix::stream_descriptor door;
    int job_count = 0;
    std::string job{};             // the one that it takes part in
    std::function<void()> left{};  // of this job
    std::optional<Job> next{};     // sent already
  };
  Expected<pid_t> start();
  static void take(Process& process, Job job);
  void tell_later(std::function<void()> left);
  void watch(pid_t pid);
  void hear(pid_t pid);

  asio::any_io_executor executor_;
  std::string agent_program_;
  rlimit descriptors_;
  std::map<pid_t, std::shared_ptr<Process>> processes_;
  std::vector<pid_t> waiting_;
  std::vector<pid_t> expected_;
  std::vector<std::function<void()>> ended_;  // of jobs, to be told when end_timer_ rings
  asio::steady_timer end_timer_;
};

}  // namespace muster::launcher
