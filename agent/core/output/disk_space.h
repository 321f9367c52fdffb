// Decides whether a file system is so full that the user should be warned. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::agent {

struct DiskSpace {
  std::uint64_t free_bytes = 0;  // available to users without privileges
  std::uint64_t total_bytes = 0;
};

// Returns a warning if less than 1 GiB is free. Also returns one if the free space is less than 5 % and less
// than 50 GiB. An example is "the log directory /x has 300 MiB left (2 %)".
std::optional<std::string> low_space(const std::string& what, const std::string& directory, DiskSpace space);

}  // namespace muster::agent
