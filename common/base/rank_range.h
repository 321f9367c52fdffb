// Consecutive ranks, such as those of a node.
#pragma once

#include "common/base/ids.h"

namespace muster {

struct RankRange {
  Rank first;
  std::int32_t count = 0;
  bool has(Rank rank) const { return rank >= first && rank.value() - first.value() < count; }
};

}  // namespace muster
