// Returns whether people want colors on a terminal: yes, unless NO_COLOR is set and not empty (no-color.org).
//
// Reads the environment at each call. The caller must find out whether there is a terminal.
#pragma once

#include <cstdlib>

namespace muster {

inline bool colors_wanted() {
  const char* value = std::getenv("NO_COLOR");
  return value == nullptr || *value == '\0';
}

}  // namespace muster
