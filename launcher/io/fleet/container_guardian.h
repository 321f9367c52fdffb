// A process beside the launcher that outlives it: when the launcher is gone, however it ended, the guardian
// lets the containers of its job end by themselves, as agents without a launcher do, removes those that do
// not and the network, and ends.
#pragma once

#include <string>
#include <sys/types.h>

#include "common/base/clock.h"
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

  // `socket`: the engine's. `label`: NAME=VALUE of all that is to be removed. `patience`: how long agents may
  // go on without a launcher.
  Status start(const std::string& socket, const std::string& label, Duration patience);
  // Nothing is left to be removed.
  void dismiss();
  // No agent is to go on without this launcher.
  void hurry();

 private:
  UniqueFd line_;  // its end tells the guardian that the launcher is gone; kGo, that it may go; kNow, not to
                   // be patient
  pid_t pid_ = 0;
};

}  // namespace muster::launcher
