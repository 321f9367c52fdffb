// A process that outlives the launcher and cleans up after it.
//
// When the launcher has ended in any way, the guardian gives the containers of the job time to end by
// themselves, because agents without a launcher exit. Then it removes the containers that have not ended by
// themselves, and the network. After that it exits.
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
  // The destructor makes the guardian begin its work, unless dismiss() was called.
  ~ContainerGuardian() = default;

  // Starts the guardian. `socket` is the socket of the engine. `label` has the form NAME=VALUE. The guardian
  // removes all objects with this label. `patience` says how long agents are allowed to run without a
  // launcher.
  Status start(const std::string& socket, const std::string& label, Duration patience);
  // Ends the guardian. Call this if there is nothing left to remove.
  void dismiss();
  // Lets the guardian remove everything at once. Call this if agents must not run without this launcher.
  void hurry();

 private:
  // The pipe to the guardian process. The message kGo tells it to exit. The message kNow tells it to remove
  // everything at once. If the pipe ends without a message, the launcher is gone.
  UniqueFd line_;
  pid_t pid_ = 0;
};

}  // namespace muster::launcher
