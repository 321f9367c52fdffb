// Whether people want colours on a terminal: not if NO_COLOR is set and not empty (no-color.org).
//
// Reads the environment each time. The caller finds out whether there is a terminal.
#pragma once

#include <cstdlib>

namespace muster {

inline bool colors_wanted() {
  const char* value = std::getenv("NO_COLOR");
  return value == nullptr || *value == '\0';
}

}  // namespace muster
