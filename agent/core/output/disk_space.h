// Whether a file system is so full that the user should hear of it before anything is lost.
//
// Numbers in, one line out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::agent {

struct DiskSpace {
  std::uint64_t free_bytes = 0;  // for users without privileges
  std::uint64_t total_bytes = 0;
};

// "the log directory /x has 300 MiB left (2 %)" when that is less than 1 GiB, or less than 5 % and 50 GiB: 5
// % of a large disk is no want.
std::optional<std::string> low_space(const std::string& what, const std::string& directory, DiskSpace space);

}  // namespace muster::agent
