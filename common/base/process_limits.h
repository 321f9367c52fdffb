// The limits on processes and threads that hold for this process, and how much of each is taken: what a fork,
// or the start of a thread, fails by.
//
// Asks the kernel each time, by hundreds of files where a user's own processes have to be counted; keeps
// nothing. Safe to call from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// A limit on processes and threads together.
struct ProcessLimit {
  std::string name;  // "RLIMIT_NPROC (ulimit -u)"
  std::uint64_t limit = 0;
  std::uint64_t used = 0;  // may be more: a limit can be set below what runs
  std::uint64_t left() const { return limit > used ? limit - used : 0; }
};

// Of the user (not of root, whom it does not bind), of the control groups, and the kernel's own.
std::vector<ProcessLimit> process_limits();

// For the text of a failure, of a process or thread that could not be had: " (RLIMIT_NPROC (ulimit -u) is 14,
// and 14 processes and threads count)", of the limit that is nearest to its end. Empty if none is near, and
// for any other error than EAGAIN.
std::string nearest_process_limit(int error_number);

}  // namespace muster
