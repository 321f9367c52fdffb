// Whether a file system is so full that the user should be warned before anything is lost.
//
// Numbers in, one line out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::agent {

struct DiskSpace {
  std::uint64_t free_bytes = 0;  // available to users without privileges
  std::uint64_t total_bytes = 0;
};

// Returns "the log directory /x has 300 MiB left (2 %)" if less than 1 GiB is left, or less than both 5 % and
// 50 GiB: 5 % of a large disk is plenty.
std::optional<std::string> low_space(const std::string& what, const std::string& directory, DiskSpace space);

}  // namespace muster::agent
