// What stands before a worker's line, on the terminal and in `launch logs`: "node0:2: ". Pure.
#pragma once

#include <fmt/core.h>
#include <iterator>
#include <string>

#include "common/base/ids.h"

namespace muster::launcher {

inline std::string line_prefix(NodeId node, Rank rank, bool color) {
  // The same colour for a rank as long as the job runs; none of black, white and red.
  constexpr int kColors[] = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};
  if (!color) return fmt::format("node{}:{}: ", node, rank);
  return fmt::format("\x1b[{}mnode{}:{}:\x1b[0m ",
                     kColors[static_cast<std::size_t>(rank.value()) % std::size(kColors)], node, rank);
}

}  // namespace muster::launcher
