// The lock that only the controller of a sweep holds: the file `controller` in the sweep's directory, which
// names the controller's host and process.
//
// The kernel releases the lock when the process ends, however it ends. The file stays. A child process does
// not inherit the lock, unless it is forked without exec.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster::launcher::sweep {

class ControllerLock {
 public:
  // kFenced: another process holds the lock; the message names its host and pid.
  static Expected<ControllerLock> take(const std::string& directory);

 private:
  explicit ControllerLock(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

struct Controller {
  std::string host;
  std::int64_t pid = 0;
};
// The process on this machine that holds the lock. nullopt: nobody does, or this process may not ask.
std::optional<Controller> running_controller(const std::string& directory);

}  // namespace muster::launcher::sweep
