// Errors about arguments that a class of the data API cannot use.
//
// Each error is one line of the same form: the class, the argument, its value, and what would be right.
#pragma once

#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// If `usable` is false, throws std::invalid_argument. Its text is like "RandomSampler: num_samples = 0 must
// be at least 1". `argument` is the part before the equals sign.
template <class Value>
void check_argument(bool usable, std::string_view argument, const Value& value, std::string_view right) {
  if (!usable) throw std::invalid_argument(fmt::format("{} = {} must be {}", argument, value, right));
}

// Returns a text such as "train-0.tar and 7 more". If there is only one name, returns this name.
inline std::string first_and_more(const std::vector<std::string>& names) {
  return names.size() == 1 ? names[0] : fmt::format("{} and {} more", names.at(0), names.size() - 1);
}

}  // namespace muster
