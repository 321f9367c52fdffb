// Finds the limits on processes and threads that apply to this process, and how much of each limit is used.
// At a limit, no further process or thread can be started.
//
// The kernel is asked at each call. To count the processes of a user, hundreds of files may be read. Safe
// from any thread.
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

// Returns the limits that the user has, the limits of the control groups, and the limits of the kernel. Root
// has no limit as a user.
std::vector<ProcessLimit> process_limits();

// Returns a suffix for the message that a process or thread could not be started. The suffix names the limit
// that is closest to being reached, for example " (RLIMIT_NPROC (ulimit -u) is 14, with 14 processes and
// threads in use)". Returns "" if no limit is close, or if the error is not EAGAIN.
std::string nearest_process_limit(int error_number);

}  // namespace muster
