// The things that an agent has found out about its host for `launch check`.
//
// The message HostChecked answers the question CheckHost (messages.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::wire {

// Each error is one clause; empty: no error.
struct HostChecked {
  std::int64_t unix_ns = 0;             // the host's wall clock when the question came
  std::vector<std::int64_t> link_ns{};  // for each address in the question: the time to connect, or -errno
  std::int32_t link_port = 0;           // the port where other hosts can try to connect; 0: none
  std::string directory_error{};
  std::string program_error{};
  // The version of torch in the workers' Python on that host. If the workers do not run Python, it is that of
  // python3. Empty if there is none.
  std::string torch{};
  std::int32_t gpu_count = 0;
  std::int64_t log_free_bytes = -1;  // -1: unknown
  std::int64_t checkpoint_free_bytes = -1;
  std::string checkpoint_error{};
};

}  // namespace muster::wire
