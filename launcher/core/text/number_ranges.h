// Lists of rank or node numbers, such as "0,4-7".
//
// Plain values. The class does not know how many ranks or nodes exist. Callers check with beyond() that no
// number is too large.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"

namespace muster::launcher {

// An empty list contains all numbers.
class NumberRanges {
 public:
  // `flag` is for messages.
  static Expected<NumberRanges> parse(std::string_view text, std::string_view flag);
  bool contains(std::int32_t number) const;
  // Returns the first number that is too large, that is, not below `count`.
  std::optional<std::int32_t> beyond(std::int32_t count) const;
  // Returns the first and the last number of each range, in the order in which the user gave the ranges.
  const std::vector<std::pair<std::int32_t, std::int32_t>>& ranges() const { return ranges_; }

 private:
  std::vector<std::pair<std::int32_t, std::int32_t>> ranges_;
};

}  // namespace muster::launcher
