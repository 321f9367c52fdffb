// Brings up agents on this machine: one process each, in its own session, so that Ctrl-C reaches the launcher
// alone.
//
// The agent program lies beside the launcher's. With a socket, the agent inherits one end of a pair as
// descriptor 3; with TCP it gets the address by its command line and its key by stdin, which nobody else can
// read. Owner of the agents' processes is the caller, who reaps them.
#pragma once

#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/ids.h"
#include "common/base/process.h"

namespace muster::launcher {

struct StartedAgent {
  pid_t pid = 0;
  UniqueFd socket;  // to talk to it; empty with TCP: it will connect
};

class LocalBootstrap {
 public:
  // `agent_program` is executed; each agent's own messages go to LOG_DIRECTORY/agent.nodeN.log. This process
  // may have as many descriptors as it likes from now on, one for each agent; they get the limit of before.
  LocalBootstrap(std::string agent_program, std::string log_directory)
      : agent_program_(std::move(agent_program)),
        log_directory_(std::move(log_directory)),
        inherited_limit_(raise_descriptor_limit()) {}

  Expected<StartedAgent> start_with_socket(AgentId agent) const;
  // `key` is its 64 hexadecimal digits.
  Expected<StartedAgent> start_with_tcp(AgentId agent, std::uint16_t port, const std::string& identity,
                                        const std::string& key) const;

  // The agent beside this program's own file. kNotFound if there is none.
  static Expected<std::string> find_agent_program();

 private:
  Expected<pid_t> spawn(AgentId agent, std::vector<std::string> arguments, int input, int socket) const;

  std::string agent_program_;
  std::string log_directory_;
  rlimit inherited_limit_;
};

}  // namespace muster::launcher
