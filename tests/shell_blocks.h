// The blocks of shell commands in a page of docs/, for tests that give them as a user would.
#pragma once

#include <fstream>
#include <string>
#include <vector>

namespace muster {

inline std::vector<std::string> shell_blocks(const std::string& page) {
  std::ifstream file(page);
  std::vector<std::string> found;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      inside = line == "```sh";
      if (inside) found.emplace_back();
    } else if (inside) {
      found.back() += line + "\n";
    }
  }
  return found;
}

}  // namespace muster
