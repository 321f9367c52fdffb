// A process beside the launcher that outlives it: when the launcher is gone, however it ended, the guardian
// removes the containers and networks of its job, and ends.
#pragma once

#include <string>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster::launcher {

class ContainerGuardian {
 public:
  ContainerGuardian() = default;
  ContainerGuardian(const ContainerGuardian&) = delete;
  ContainerGuardian& operator=(const ContainerGuardian&) = delete;
  // The guardian does its work, unless it was dismissed.
  ~ContainerGuardian() = default;

  // `socket`: the engine's. `label`: NAME=VALUE of all that is to be removed.
  Status start(const std::string& socket, const std::string& label);
  // Nothing is left to be removed.
  void dismiss();

 private:
  UniqueFd line_;  // its end tells the guardian that the launcher is gone; a byte, that it may go
  pid_t pid_ = 0;
};

}  // namespace muster::launcher
