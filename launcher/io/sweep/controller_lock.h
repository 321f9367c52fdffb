// Only the controller of a sweep holds this lock. It is a lock of the file `controller` in the sweep's
// directory. The file names the controller's host and process.
//
// When the process ends in any way, the kernel releases the lock. The file stays. A child process does not
// inherit the lock, unless it is forked without exec.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster::launcher::sweep {

class ControllerLock {
 public:
  // Takes the lock. If another process holds it, returns kFenced, with a message that names the host and the
  // pid of that process.
  static Expected<ControllerLock> take(const std::string& directory);

 private:
  explicit ControllerLock(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

struct Controller {
  std::string host;
  std::int64_t pid = 0;
};
// Returns the process on this machine that holds the lock. Returns nullopt if no process holds it, or if this
// process has no permission to find out.
std::optional<Controller> running_controller(const std::string& directory);

}  // namespace muster::launcher::sweep
