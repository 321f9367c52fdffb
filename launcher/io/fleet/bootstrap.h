// The seam to the machines: starts agents, kills them, looks at what they leave.
//
// Nothing here waits. What becomes of a start is told later: the agent connects, or its end is told, or
// neither; the fleet has a limit for that. agent_connected() is told when frames can be exchanged and the
// peer has proven to be that agent. One thread; the listener outlives the bootstrap's last call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/process.h"
#include "common/net/channel.h"
#include "launcher/core/fleet/fleet_events.h"
#include "launcher/core/settings/hosts.h"

namespace muster::launcher {

class Bootstrap {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // The channel is not started yet. It may come late, or a second one may: the listener closes a channel
    // that it has no use for.
    virtual void agent_connected(AgentId agent, std::shared_ptr<net::Channel> channel) = 0;
    // Told once of each agent that was started. `how` is a clause, "its agent was killed by SIGKILL", or says
    // why the agent could not be started.
    virtual void agent_ended(AgentId agent, std::string how, AgentEnd end) = 0;
    // Leftovers of agents that have ended or were killed, as far as this bootstrap can see them. `killed`:
    // each was killed just now, and its entry says how that went. Answers look_for_leftovers(), and is told
    // again, unasked, when a leftover has ended.
    virtual void leftovers_seen(std::vector<Leftover> left, bool killed) = 0;
  };
  virtual ~Bootstrap() = default;

  // Called once, before anything else. Every other function may call the listener before it returns.
  virtual void listen(Listener& listener) = 0;
  virtual void start(AgentId agent) = 0;
  // Kills the agent by SIGKILL. Nothing happens if it has ended.
  virtual void kill(AgentId agent) = 0;
  // The node of the next number is on this host; of a job that has hosts.
  virtual void add(const Host&) {}
  // Answered by leftovers_seen(). `kill`: each leftover is killed as well.
  virtual void look_for_leftovers(bool kill) = 0;

  // The rest is called by the wiring (local_launcher.h), and is of use to a bootstrap that has child
  // processes or tasks of its own. reap(): children of this process have ended (SIGCHLD).
  virtual void reap() {}
  // Ends the bootstrap's tasks; the last of them has ended when idle() says so.
  virtual void close() {}
  virtual bool idle() const { return true; }
};

}  // namespace muster::launcher
