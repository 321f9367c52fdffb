#include "launcher/core/sweep/search/grid.h"

#include <algorithm>

#include "common/base/check.h"

namespace muster::launcher::sweep {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
// completions() looks at each value of a parameter that a condition names. So such a parameter can have at
// most this many values.
constexpr std::uint64_t kMostLookedAt = 1 << 20;

bool is_named_after(const Space& space, std::size_t parameter) {
  return std::any_of(space.parameters.begin() + static_cast<std::ptrdiff_t>(parameter) + 1,
                     space.parameters.end(), [&](const Parameter& later) {
                       return later.when && later.when->of == space.parameters[parameter].name;
                     });
}

// Returns in how many ways `point` can be completed. The parameters before number `first` already have values
// in it. Returns nothing in the same cases as grid_size(). A parameter that no condition names is simple:
// each of its values leads to the same number of ways.
std::optional<std::uint64_t> completions(const Space& space, std::size_t first, Point& point) {
  if (first == space.parameters.size()) return 1;
  const Parameter& parameter = space.parameters[first];
  if (!is_active(parameter, point)) return completions(space, first + 1, point);
  const auto values = value_count(parameter);
  if (!values) return std::nullopt;
  if (!is_named_after(space, first)) {
    const auto rest = completions(space, first + 1, point);
    if (!rest || *rest > kMost / *values) return std::nullopt;
    return *rest * *values;
  }
  if (*values > kMostLookedAt) return std::nullopt;
  std::uint64_t all = 0;
  for (std::uint64_t value = 0; value < *values; ++value) {
    point.insert_or_assign(parameter.name, nth_value(parameter, value));
    const auto rest = completions(space, first + 1, point);
    if (rest) all += *rest;
    if (!rest || all > kMost) {
      point.erase(parameter.name);
      return std::nullopt;
    }
  }
  point.erase(parameter.name);
  return all;
}

}  // namespace

Value nth_value(const Parameter& parameter, std::uint64_t index) {
  // value_at() below can only be used if all values are equally likely. The values of a logarithmic range are
  // not.
  if (parameter.kind == Parameter::Kind::kIntLog)
    return static_cast<std::int64_t>(parameter.low) + static_cast<std::int64_t>(index);
  const auto count = static_cast<double>(value_count(parameter).value());
  return value_at(parameter, (static_cast<double>(index) + 0.5) / count);
}

std::optional<std::uint64_t> grid_size(const Space& space) {
  Point point;
  return completions(space, 0, point);
}

Point nth_point(const Space& space, std::uint64_t index) {
  Point point;
  for (std::size_t i = 0; i < space.parameters.size(); ++i) {
    const Parameter& parameter = space.parameters[i];
    if (!is_active(parameter, point)) continue;
    if (!is_named_after(space, i)) {
      const std::uint64_t rest = completions(space, i + 1, point).value();
      point.insert_or_assign(parameter.name, nth_value(parameter, index / rest));
      index %= rest;
      continue;
    }
    for (std::uint64_t value = 0;; ++value) {
      CHECK(value < value_count(parameter).value(), "point {}", index);
      point.insert_or_assign(parameter.name, nth_value(parameter, value));
      const std::uint64_t rest = completions(space, i + 1, point).value();
      if (index < rest) break;
      index -= rest;
    }
  }
  return point;
}

}  // namespace muster::launcher::sweep
