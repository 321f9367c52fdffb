// One request to a running launcher, over its control socket, and the lines of its answer.
//
// Blocking, with a limit on every wait.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "launcher/core/view/job_list.h"

namespace muster::launcher {

class Conversation {
 public:
  // Sends a request to the job's launcher. `request`: a line of JSON, without its newline. Errors: the job is
  // not running, or this process cannot reach its launcher.
  static Expected<Conversation> ask(const JobEntry& job, std::string_view request);
  // Returns the next line, without its newline; nothing after the last line. kTimedOut: none within `limit`.
  Expected<std::optional<std::string>> next(Duration limit);

 private:
  explicit Conversation(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
  std::string buffer_;
};

// How an ended job ended: "succeeded", "failed with exit code 3: rank 2 (node1) ...".
std::string end_of(const JobEntry& job);

}  // namespace muster::launcher
