// Whether people who look at a terminal want colours: not if NO_COLOR is set, and not empty (no-color.org).
//
// Reads the environment each time. Whether there is a terminal is the caller's to know.
#pragma once

#include <cstdlib>

namespace muster {

inline bool colors_wanted() {
  const char* value = std::getenv("NO_COLOR");
  return value == nullptr || *value == '\0';
}

}  // namespace muster
