// The seam to the machines: starts agents, kills them, looks for the processes that they leave.
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
    // The agent's channel is there, but not started yet. It can come late, and a second one can come: the
    // listener closes each channel that it does not use.
    virtual void agent_connected(AgentId agent, std::shared_ptr<net::Channel> channel) = 0;
    // Called once for each agent that was started. `how` is a clause, "its agent was killed by SIGKILL", or
    // the reason why the agent could not be started.
    virtual void agent_ended(AgentId agent, std::string how, AgentEnd end) = 0;
    // The leftovers, as far as this bootstrap sees them, of agents that have ended or were killed. `killed`:
    // the bootstrap has just killed each, and its entry has the result. Called in answer to
    // look_for_leftovers(), and again, unasked, when a leftover has ended.
    virtual void leftovers_seen(std::vector<Leftover> left, bool killed) = 0;
  };
  virtual ~Bootstrap() = default;

  // Called once, before anything else. Every other function may call the listener before it returns.
  virtual void listen(Listener& listener) = 0;
  virtual void start(AgentId agent) = 0;
  // Kills the agent by SIGKILL. Nothing happens if it has ended.
  virtual void kill(AgentId agent) = 0;
  // Appends a host to the job's host list. The node with the next number will run on this host.
  virtual void add(const Host&) {}
  // Answers with leftovers_seen(). `kill`: kills each leftover as well.
  virtual void look_for_leftovers(bool kill) = 0;

  // local_job.h calls the functions below. Bootstraps with child processes or tasks of their own override
  // them. hear_ends(): these children of this process have ended; other parts may have started some of them.
  virtual void hear_ends(const std::vector<ChildEnd>&) {}
  // Ends the bootstrap's tasks. They may end later; idle() is true when all have.
  virtual void close() {}
  virtual bool idle() const { return true; }
};

}  // namespace muster::launcher
