// Makes a tar file of the agent and its modules, for hosts that lack them. Also makes the digest that names
// this version of them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "launcher/core/fleet/host_script.h"

namespace muster::launcher {

// Returns the path of the PMIx module that belongs to the agent with this path. It is in the folder of that
// agent's TLS module. Jobs that use Open MPI need it.
std::string pmix_beside(const std::string& agent);

class Delivery {
 public:
  // `agent_program` is the file of the agent. The TLS module is the file that the agent would load.
  explicit Delivery(std::string agent_program) : agent_program_(std::move(agent_program)) {}

  // Returns the place of the files on a host. The first call computes their digest. An error names the file.
  Expected<AgentPlace> place();
  // Returns the files as a ustar archive (POSIX.1-1988). In the archive, the files have the paths that
  // core/fleet/host_script.h defines.
  Expected<std::shared_ptr<const std::string>> tar();

 private:
  struct Files {
    std::string agent;
    std::string module;
  };
  Expected<Files> read() const;

  std::string agent_program_;
  std::optional<AgentPlace> place_;
  std::shared_ptr<const std::string> tar_;
};

}  // namespace muster::launcher
