// The agent and its modules in one tar, for hosts that lack them, and the digest that names this version.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "launcher/core/fleet/host_script.h"

namespace muster::launcher {

// The path of the PMIx module for the agent at this path: in the folder of its TLS module. Jobs of Open MPI
// need it.
std::string pmix_beside(const std::string& agent);

class Delivery {
 public:
  // `agent_program`: the agent's file. The TLS module is where that program looks for it.
  explicit Delivery(std::string agent_program) : agent_program_(std::move(agent_program)) {}

  // The place of the files on a host. The first call computes their digest. Errors name the file.
  Expected<AgentPlace> place();
  // The files as a ustar archive (POSIX.1-1988), with the names of core/fleet/host_script.h.
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
