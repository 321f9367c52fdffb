// Agent processes that stay when their job is over, and take part in the next one: a sweep's trials then need
// no new process for their agents.
//
// Each process waits on a socket, its door. The pool sends the job's control socket and log file through the
// door, and the process answers when it has left the job. The pool forgets a process that fails or is killed.
// One thread, the executor's.
#pragma once

#include <functional>
#include <map>
#include <memory>
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
  // `descriptors`: the descriptor limit of new processes.
  AgentPool(asio::any_io_executor executor, std::string agent_program, const rlimit& descriptors);
  AgentPool(const AgentPool&) = delete;
  AgentPool& operator=(const AgentPool&) = delete;

  struct Job {
    AgentId agent;
    int control = -1;            // the agent's end of a socketpair
    int log = -1;                // for the agent's stdout and stderr
    std::function<void()> left;  // called when the agent has left the job, unless its process ends
  };
  // Gives the job to a waiting process, or to a new one. Returns its pid.
  Expected<pid_t> hire(Job job);
  // Call when these child processes have ended.
  void hear_ends(const std::vector<ChildEnd>& ends);
  // All processes of the pool, whether they wait or not.
  std::set<pid_t> pids() const;

 private:
  struct Process {
    asio::posix::stream_descriptor door;
    std::function<void()> left;
  };
  Expected<pid_t> start();
  void watch(pid_t pid);
  void hear(pid_t pid);

  asio::any_io_executor executor_;
  std::string agent_program_;
  rlimit descriptors_;
  std::map<pid_t, std::shared_ptr<Process>> processes_;
  std::vector<pid_t> waiting_;
};

}  // namespace muster::launcher
