// The limits on processes and threads that apply to this process, and how much of each is used: when one is
// reached, fork and the start of a thread fail.
//
// Asks the kernel each time and keeps nothing. Where it has to count a user's own processes it reads hundreds
// of files. Safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// A limit on processes and threads together.
struct ProcessLimit {
  std::string name;  // "RLIMIT_NPROC (ulimit -u)"
  std::uint64_t limit = 0;
  std::uint64_t used = 0;  // can be above the limit, which can be set below what already runs
  std::uint64_t left() const { return limit > used ? limit - used : 0; }
};

// Returns the limits of the user (except for root, which has none), of the control groups, and of the kernel.
std::vector<ProcessLimit> process_limits();

// Returns a suffix for the message when a process or thread could not be started: " (RLIMIT_NPROC (ulimit -u)
// is 14, with 14 processes and threads in use)". Names the limit that is closest to being reached. Empty if
// none is close, and for any error other than EAGAIN.
std::string nearest_process_limit(int error_number);

}  // namespace muster
