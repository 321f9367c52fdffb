// A process that outlives the launcher and cleans up after it.
//
// When the launcher is gone, however it ended, the guardian waits for the job's containers to end by
// themselves, as agents without a launcher do. It then removes those that have not, and the network, and
// exits.
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
  // The end of this object starts the guardian's work, unless dismiss() was called.
  ~ContainerGuardian() = default;

  // `socket`: the engine's. `label`: NAME=VALUE, which every object to remove has. `patience`: how long
  // agents are allowed to run without a launcher.
  Status start(const std::string& socket, const std::string& label, Duration patience);
  // Ends the guardian: nothing is left to remove.
  void dismiss();
  // Lets the guardian remove everything at once: agents must not run without this launcher.
  void hurry();

 private:
  // The pipe to the guardian. kGo means exit. kNow means remove everything at once. The pipe's end means that
  // the launcher is gone.
  UniqueFd line_;
  pid_t pid_ = 0;
};

}  // namespace muster::launcher
