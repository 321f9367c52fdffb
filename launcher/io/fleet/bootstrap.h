// The seam to the machines: starts agents, kills them, looks at what they leave.
//
// Nothing here waits. A start says nothing at once: the agent connects, or its end is told, or neither, which
// its user times. An agent connects when a conversation with it is possible; who that is has been proven. One
// thread; the listener outlives the bootstrap's last call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/process.h"
#include "common/net/channel.h"

namespace muster::launcher {

class Bootstrap {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // The channel is not started yet. It may come late, or twice: who listens closes what it has no use for.
    virtual void agent_connected(AgentId agent, std::shared_ptr<net::Channel> channel) = 0;
    // Told once of each agent that was started. `how`, a clause: "its agent was killed by SIGKILL"; of an
    // agent that could not be started, why.
    virtual void agent_ended(AgentId agent, std::string how) = 0;
    // Processes of agents that have ended, or were killed, that are left where this bootstrap can see them;
    // of those that it `killed` just now it says how that went. Answers look_for_leftovers(), and is told
    // again, unasked, when one of them has ended.
    virtual void leftovers_seen(std::vector<Leftover> left, bool killed) = 0;
  };
  virtual ~Bootstrap() = default;

  // Once, first. Any of the others may call the listener before it returns.
  virtual void listen(Listener& listener) = 0;
  virtual void start(AgentId agent) = 0;
  // By SIGKILL. Nothing happens if it has ended.
  virtual void kill(AgentId agent) = 0;
  // `kill`: and kill them.
  virtual void look_for_leftovers(bool kill) = 0;

  // The rest is called by the wiring (local_launcher.h), and is of use to a bootstrap that has child
  // processes or tasks of its own. reap(): children of this process have ended (SIGCHLD).
  virtual void reap() {}
  // Ends the bootstrap's tasks; the last of them has ended when idle() says so.
  virtual void close() {}
  virtual bool idle() const { return true; }
};

}  // namespace muster::launcher
