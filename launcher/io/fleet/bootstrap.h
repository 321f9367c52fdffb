// The interface between the launcher's core and the machines. It starts agents, kills them, and looks for
// processes that they leave behind.
//
// No function blocks. After start(), the bootstrap calls agent_connected() or agent_ended(). If it calls
// neither, the fleet's timeout ends the wait. The bootstrap calls agent_connected() when frames can be
// exchanged and the peer has proven to be that agent. One thread; the listener outlives the bootstrap's last
// call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/process.h"
#include "common/net/channel.h"
#include "launcher/core/fleet/fleet_events.h"
#include "launcher/core/settings/hosts.h"

namespace muster::launcher {

struct ChildEnd {
  std::int32_t pid = 0;
  std::string how;  // "exited with code 1", "was killed by SIGKILL"
};

class Bootstrap {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // Called when the channel of an agent is there, but not started yet. This can happen late, and even
    // twice. The listener closes each channel that it does not use.
    virtual void agent_connected(AgentId agent, std::shared_ptr<net::Channel> channel) = 0;
    // Called once for each agent that was started. `how` is a clause such as "its agent was killed by
    // SIGKILL". If the agent could not be started, `how` is the reason.
    virtual void agent_ended(AgentId agent, std::string how, AgentEnd end) = 0;
    // Called with the leftovers that this bootstrap can see. A leftover is a process that is still there
    // although its agent has ended or was killed. The call is the answer to look_for_leftovers(). The
    // bootstrap also makes this call unasked, when a leftover has ended. `killed` says that the bootstrap has
    // just tried to kill every process in `left`. Each entry of `left` has the result.
    virtual void leftovers_seen(std::vector<Leftover> left, bool killed) = 0;
  };
  virtual ~Bootstrap() = default;

  // Called once, before anything else. Every other function may call the listener before it returns.
  virtual void listen(Listener& listener) = 0;
  virtual void start(AgentId agent) = 0;
  // Kills the agent by SIGKILL. If the agent has ended, nothing happens.
  virtual void kill(AgentId agent) = 0;
  // Appends a host to the job's host list. The node with the next number will run on this host.
  virtual void add(const Host&) {}
  // Looks for leftovers. The bootstrap answers by calling leftovers_seen(). If `kill` is true, it also kills
  // each leftover.
  virtual void look_for_leftovers(bool kill) = 0;

  // local_job.h calls the functions below. A bootstrap overrides them if it has child processes or tasks of
  // its own. hear_ends() gets child processes of the launcher that have ended. Some of these children may
  // have been started by other parts, and not by the bootstrap.
  virtual void hear_ends(const std::vector<ChildEnd>&) {}
  // Begins to end the tasks of the bootstrap. They may end later. When all have ended, idle() is true.
  virtual void close() {}
  virtual bool idle() const { return true; }
};

}  // namespace muster::launcher
