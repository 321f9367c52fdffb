#include "launcher/core/sweep/search/axis.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "launcher/core/sweep/search/grid.h"

namespace muster::launcher::sweep {
namespace {

std::optional<double> number_in(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value); real && !std::isnan(*real)) return *real;
  return std::nullopt;
}

}  // namespace

Axis::Axis(const Parameter& parameter)
    : parameter_(&parameter), value_count_(sweep::value_count(parameter).value_or(0)) {
  if (value_count_ == 0 && parameter.kind != Parameter::Kind::kNormal && parameter.low == parameter.high)
    value_count_ = 1;
  // A logarithmic range of whole numbers is extended by half a unit at both ends, as in Optuna 5.0. So the
  // cells of its first and last value are whole cells.
  const double margin = parameter.kind == Parameter::Kind::kIntLog ? 0.5 : 0;
  if (parameter.kind != Parameter::Kind::kIntLog && parameter.kind != Parameter::Kind::kLogUniform) return;
  log_low_ = std::log(parameter.low - margin);
  log_span_ = std::log(parameter.high + margin) - log_low_;
}

bool Axis::is_choice() const {
  return parameter_->kind == Parameter::Kind::kChoice || parameter_->kind == Parameter::Kind::kConstant;
}

std::optional<double> Axis::coordinate_in(const Point& point) const {
  const auto found = point.find(parameter_->name);
  if (found == point.end()) return std::nullopt;
  return coordinate(found->second);
}

std::optional<double> Axis::coordinate(const Value& value) const {
  if (is_choice()) {
    const auto found = std::ranges::find(parameter_->choices, value);
    if (found == parameter_->choices.end()) return std::nullopt;
    return static_cast<double>(found - parameter_->choices.begin());
  }
  const auto number = number_in(value);
  if (!number) return std::nullopt;
  if (parameter_->kind == Parameter::Kind::kNormal)
    return 0.5 * std::erfc((parameter_->low - *number) / parameter_->high / std::numbers::sqrt2);
  // If another program chose the point, its value may be outside the range, or between two steps.
  const double inside = std::clamp(*number, parameter_->low, parameter_->high);
  if (has_cells()) {
    const double step = parameter_->kind == Parameter::Kind::kQUniform ? parameter_->step : 1;
    const double index = std::round((inside - parameter_->low) / step);
    return middle(std::min(static_cast<std::uint64_t>(index), value_count_ - 1));
  }
  if (parameter_->kind == Parameter::Kind::kLogUniform) return (std::log(inside) - log_low_) / log_span_;
  return (inside - parameter_->low) / (parameter_->high - parameter_->low);
}

Value Axis::value(double coordinate) const {
  if (is_fixed()) return value_at(*parameter_, 0);
  if (is_choice() || has_cells()) return nth_value(*parameter_, index_at(coordinate));
  return value_at(*parameter_, std::min(coordinate, std::nextafter(1.0, 0.0)));
}

double Axis::snapped(double coordinate) const {
  return has_cells() ? middle(index_at(coordinate)) : coordinate;
}

Axis::Cell Axis::cell(double coordinate) const {
  const auto index = static_cast<double>(index_at(coordinate));
  return {edge(index), edge(index + 1)};
}

std::uint64_t Axis::index_at(double coordinate) const {
  double index = coordinate;
  if (parameter_->kind == Parameter::Kind::kIntLog)
    index = std::round(std::exp(log_low_ + coordinate * log_span_)) - parameter_->low;
  else if (!is_choice())
    index = coordinate * static_cast<double>(value_count_);
  return static_cast<std::uint64_t>(std::clamp(index, 0.0, static_cast<double>(value_count_ - 1)));
}

// The lower edge of cell `index`.
double Axis::edge(double index) const {
  if (parameter_->kind != Parameter::Kind::kIntLog) return index / static_cast<double>(value_count_);
  return (std::log(parameter_->low + index - 0.5) - log_low_) / log_span_;
}

double Axis::middle(std::uint64_t index) const {
  const auto number = static_cast<double>(index);
  if (parameter_->kind != Parameter::Kind::kIntLog) return (number + 0.5) / static_cast<double>(value_count_);
  return (std::log(parameter_->low + number) - log_low_) / log_span_;
}

}  // namespace muster::launcher::sweep
