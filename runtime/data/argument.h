// What a class of the data API says of an argument that it cannot use.
//
// One line of the same form everywhere: who, which argument, its value, and what would be right.
#pragma once

#include <fmt/format.h>
#include <stdexcept>
#include <string_view>

namespace muster {

// Throws std::invalid_argument "RandomSampler: num_samples = 0 must be at least 1" unless `usable`;
// `argument` is all in front of the equals sign.
template <class Value>
void check_argument(bool usable, std::string_view argument, const Value& value, std::string_view right) {
  if (!usable) throw std::invalid_argument(fmt::format("{} = {} must be {}", argument, value, right));
}

}  // namespace muster
