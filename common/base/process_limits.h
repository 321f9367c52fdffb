// Finds the limits on processes and threads that apply to this process, and how much of each is used. When a
// limit is reached, no process or thread can be started.
//
// Asks the kernel at each call. Counting a user's processes can read hundreds of files. Safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// A limit on processes and threads together.
struct ProcessLimit {
  std::string name;  // "RLIMIT_NPROC (ulimit -u)"
  std::uint64_t limit = 0;
  std::uint64_t used = 0;  // can be above the limit, if the limit was lowered later
  std::uint64_t left() const { return limit > used ? limit - used : 0; }
};

// Returns the limits of the user, of the control groups, and of the kernel. (Root has no limit of the user.)
std::vector<ProcessLimit> process_limits();

// Returns a suffix for the message that a process or thread could not be started. It names the limit that is
// closest to being reached: " (RLIMIT_NPROC (ulimit -u) is 14, with 14 processes and threads in use)".
// Returns "" if no limit is close, or if the error is not EAGAIN.
std::string nearest_process_limit(int error_number);

}  // namespace muster
