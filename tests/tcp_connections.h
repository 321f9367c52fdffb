// Counts a process's TCP connections in the kernel's table, also in another network namespace.
#pragma once

#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <sys/types.h>
#include <vector>

#include "common/base/file.h"

namespace muster {

// The number of established TCP connections of this process.
inline int tcp_connections_of(pid_t pid) {
  std::set<std::string> own;
  std::error_code ignored;
  for (const auto& each : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), ignored))
    own.insert(std::filesystem::read_symlink(each.path(), ignored).string());
  int count = 0;
  for (const char* table : {"tcp", "tcp6"}) {
    std::istringstream lines(read_file(fmt::format("/proc/{}/net/{}", pid, table), 64 << 20).value_or(""));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      const std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
      if (all.size() > 9 && all[3] == "01" && own.contains("socket:[" + all[9] + "]")) ++count;
    }
  }
  return count;
}

}  // namespace muster
