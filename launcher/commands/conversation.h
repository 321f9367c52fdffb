// Sends one request to a running launcher over its control socket, and reads the lines of the answer.
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
  // Sends a request to the launcher of the job. `request` is a line of JSON without its newline. It is an
  // error if the job is not running, or if this process cannot reach its launcher.
  static Expected<Conversation> ask(const JobEntry& job, std::string_view request);
  // Returns the next line, without its newline. After the last line it returns nothing. If no line comes
  // within `limit`, it returns kTimedOut.
  Expected<std::optional<std::string>> next(Duration limit);

 private:
  explicit Conversation(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
  std::string buffer_;
};

// Returns how a job ended, as a text such as "succeeded" or "failed with exit code 3: rank 2 (node1) ...".
std::string end_of(const JobEntry& job);

}  // namespace muster::launcher
