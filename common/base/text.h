// Small things done with text.
//
// Views into the text passed in; plain functions, safe to call from any thread.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace muster {

// One part more than there are separators; parts may be empty.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace muster
