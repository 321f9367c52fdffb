// Starts agents on this machine. Each agent is a process in a session of its own. So Ctrl-C reaches the
// launcher, but no agent.
//
// The agent program is in the launcher's directory. With Control::kSocket, the agent inherits one end of a
// socket pair as descriptor 3. With Control::kTcp, the agent gets the address by its command line and its key
// by stdin, which no other process can read. This process becomes a child subreaper. So if agents leave
// processes behind, these become its children. They count as leftovers until they are reaped. Use this class
// on the thread of its executor.
#pragma once

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
#include "common/base/process.h"
#include "common/net/asio.h"
#include "common/net/task_group.h"
#include "launcher/core/settings/plan.h"
#include "launcher/io/fleet/agent_pool.h"
#include "launcher/io/fleet/bootstrap.h"
#include "launcher/io/fleet/children.h"
#include "launcher/io/fleet/control_port.h"

namespace muster::launcher {

class LocalBootstrap final : public Bootstrap {
 public:
  // Executes `agent_program` for each agent. Messages of an agent itself go to LOG_DIRECTORY/agent.nodeN.log.
  // Each agent takes a descriptor of this process. So this raises the process's limit on descriptors, but
  // agents get the old limit. With Control::kSocket and a `pool`, agents come from the pool and go back to
  // it. Otherwise each agent is a new process.
  LocalBootstrap(const asio::any_io_executor& executor, Plan plan, std::string agent_program,
                 AgentPool* pool = nullptr);

  void listen(Listener& listener) override { listener_ = &listener; }
  void start(AgentId agent) override;
  void kill(AgentId agent) override;
  void look_for_leftovers(bool kill) override;

  void hear_ends(const std::vector<ChildEnd>& ends) override;
  void close() override;
  bool idle() const override { return tasks_.empty(); }

  // The first bootstrap raises the limit on descriptors of this process. Returns the limit that was there
  // before. The agents get that limit.
  static rlimit limit_before_raise();
  // Returns the agent in the directory of this program. Returns kNotFound if there is none.
  static Expected<std::string> find_agent_program();

 private:
  struct Started {
    pid_t pid = 0;
    UniqueFd socket{};  // the launcher's end; empty with TCP, where the agent will connect
    UniqueFd input{};   // with TCP, the agent's stdin; if it ends, an agent without a connection exits
  };
  Expected<Started> start_with_socket(AgentId agent);
  Expected<Started> start_with_tcp(AgentId agent);
  Expected<pid_t> hire(AgentId agent, int socket);
  void agent_left(AgentId agent);
  Expected<pid_t> spawn(AgentId agent, std::vector<std::string> arguments, int input, int socket) const;
  std::set<pid_t> living_agents() const;

  struct Child {
    AgentId agent;
    UniqueFd input{};
    bool killed = false;  // by kill(): the agent is a leftover from then on
  };
  asio::any_io_executor executor_;
  net::TaskGroup tasks_;
  Plan plan_;
  std::string agent_program_;
  AgentPool* pool_;
  rlimit inherited_limit_;
  Listener* listener_ = nullptr;
  std::unique_ptr<ControlPort> control_port_;                   // with --control tcp
  std::map<pid_t, Child> children_;                             // agents that have not been reaped
  std::map<AgentId, pid_t> pids_;                               // of the agents in children_
  Marks marks_;                                                 // of this job's processes
  bool saw_leftovers_ = false;                                  // at the last look
  bool killed_leftovers_ = false;                               // at the last look
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // the pool may outlive this object
};

}  // namespace muster::launcher
