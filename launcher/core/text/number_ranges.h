// Numbers as people list them: "0,4-7", of ranks or nodes.
//
// Plain values. Does not know how many there are: beyond() tells whether all of them are.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"

namespace muster::launcher {

// Of nothing, all numbers.
class NumberRanges {
 public:
  // `flag` is for messages.
  static Expected<NumberRanges> parse(std::string_view text, std::string_view flag);
  bool contains(std::int32_t number) const;
  // The first number that is not below `count`.
  std::optional<std::int32_t> beyond(std::int32_t count) const;
  // First and last of each, as they were given.
  const std::vector<std::pair<std::int32_t, std::int32_t>>& ranges() const { return ranges_; }

 private:
  std::vector<std::pair<std::int32_t, std::int32_t>> ranges_;
};

}  // namespace muster::launcher
