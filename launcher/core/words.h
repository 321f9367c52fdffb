// Numbers as people read them, for messages. Pure.
#pragma once

#include <cstddef>
#include <fmt/core.h>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace muster::launcher {

inline double in_seconds(Duration duration) {
  return std::chrono::duration_cast<Seconds>(duration).count();
}

// "1 rank", "2 ranks"
inline std::string count_of(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace muster::launcher
