// What an agent finds on its host for `launch check`.
//
// messages.h describes how messages travel, and has the question (CheckHost).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::wire {

// Errors are a clause each; empty: there is none.
struct HostChecked {
  std::int64_t unix_ns = 0;             // by the host's clock, when it was asked
  std::vector<std::int64_t> link_ns{};  // by address asked for: what a connection took, or -errno
  std::int32_t link_port = 0;           // where the others can try this host; 0: nowhere
  std::string directory_error{};
  std::string program_error{};
  std::string torch{};  // the version that the workers' Python, or else python3, has there; or empty
  std::int32_t gpu_count = 0;
  std::int64_t log_free_bytes = -1;  // -1: not known
  std::int64_t checkpoint_free_bytes = -1;
  std::string checkpoint_error{};
};

}  // namespace muster::wire
