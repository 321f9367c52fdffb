// The agent and its TLS module as they are brought to hosts that lack them: one tar, and its digest.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "launcher/core/fleet/host_script.h"

namespace muster::launcher {

// Where the module of Open MPI's jobs lies for an agent there: beside that of TLS.
std::string pmix_beside(const std::string& agent);

class Delivery {
 public:
  // `agent_program`: the file; the module lies where that program finds it.
  explicit Delivery(std::string agent_program) : agent_program_(std::move(agent_program)) {}

  // Where a host has them. The files are read once for their digest. Errors name the file.
  Expected<AgentPlace> place();
  // Both files in ustar form (POSIX.1-1988), as core/fleet/host_script.h names them.
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
