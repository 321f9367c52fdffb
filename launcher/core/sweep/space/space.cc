#include "launcher/core/sweep/space/space.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "launcher/core/text/nearest.h"

namespace muster::launcher::sweep {

namespace {

// ---- Distributions ----

// Returns the x at which the standard normal distribution function has the value `p`. `p` must be in (0,
// 0.5].
//
// The first guess is formula 26.2.23 of Abramowitz and Stegun, Handbook of Mathematical Functions (1964). Its
// error is below 4.5e-4. Each step of Halley's method cubes the error. So after two steps the result is as
// accurate as erfc().
double lower_half_quantile(double p) {
  const double t = std::sqrt(-2 * std::log(p));
  double x =
      (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
  for (int step = 0; step < 2; ++step) {
    const double difference = std::erfc(-x / std::numbers::sqrt2) / 2 - p;
    // This is a step of Newton's method: the difference divided by the density.
    const double newton = difference * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
    x -= newton / (1 + x * newton / 2);
  }
  return x;
}

double normal_value_at(double p) {
  // Random numbers are multiples of 2^-53, and below 1. Only 0 is not in the open interval (0, 1). So only 0
  // must be moved.
  const double inside = std::clamp(p, std::exp2(-54), 1 - std::exp2(-53));
  return inside <= 0.5 ? lower_half_quantile(inside) : -lower_half_quantile(1 - inside);
}

// Divides [0, 1) into `count` equal parts, and returns the number of the part that contains `unit`. The first
// part has the number 0.
double equal_share(double unit, double count) {
  return std::clamp(std::floor(unit * count), 0.0, count - 1);
}

// Rounds the number to 15 decimal digits. So 0.1 * 3 gives 0.3 and not 0.30000000000000004. A double always
// keeps 15 decimal digits.
double without_noise(double number) {
  return parse_number<double>(fmt::format("{:.15g}", number)).value_or(number);
}

// Returns how many of the values low, low + step, low + 2 * step, ... are not above high. Adds 1e-9, because
// 0.3 / 0.1 is a little less than 3.
double step_count(const Parameter& parameter) {
  return std::floor((parameter.high - parameter.low) / parameter.step + 1e-9) + 1;
}

double stepped_value(const Parameter& parameter, double k) {
  return std::clamp(without_noise(parameter.low + k * parameter.step), parameter.low, parameter.high);
}

double log_between(double low, double high, double unit) {
  return std::exp(std::lerp(std::log(low), std::log(high), unit));
}

// Returns a whole number on a logarithmic scale. A number gets the share of the interval that lies between
// half a unit below it and half a unit above it. Optuna 5.0 does the same.
std::int64_t whole_in_log(const Parameter& parameter, double unit) {
  const double real = log_between(parameter.low - 0.5, parameter.high + 0.5, unit);
  return static_cast<std::int64_t>(std::clamp(std::floor(real + 0.5), parameter.low, parameter.high));
}

// ---- Points from elsewhere ----

bool is_satisfied(const Constraint& constraint, const Point& point) {
  const bool is_about_inactive =
      std::ranges::any_of(constraint.names(), [&](const std::string& name) { return !point.contains(name); });
  return is_about_inactive || constraint.holds(point).value_or(false);
}

std::string listed_texts(const std::vector<Value>& values) {
  std::vector<std::string> texts;
  std::ranges::transform(values, std::back_inserter(texts), text_of);
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::optional<std::string> why_not_choice(const Parameter& parameter, const Value& value) {
  if (std::ranges::find(parameter.choices, value) != parameter.choices.end()) return std::nullopt;
  return fmt::format("expected one of {}", listed_texts(parameter.choices));
}

std::optional<std::string> why_not_whole(const Parameter& parameter, const Value& value) {
  const auto* whole = std::get_if<std::int64_t>(&value);
  if (whole != nullptr && static_cast<double>(*whole) >= parameter.low &&
      static_cast<double>(*whole) <= parameter.high) {
    return std::nullopt;
  }
  return fmt::format("expected a whole number from {} to {}{}", parameter.low, parameter.high,
                     std::holds_alternative<double>(value) ? ", without a decimal point" : "");
}

std::optional<std::string> why_not_real(const Parameter& parameter, const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return fmt::format("expected a real number: write {}.0", *whole);
  }
  const auto* real = std::get_if<double>(&value);
  if (real == nullptr || !std::isfinite(*real)) return "expected a real number";
  if (parameter.kind == Parameter::Kind::kNormal) return std::nullopt;
  if (*real < parameter.low || *real > parameter.high) {
    return fmt::format("expected a number from {} to {}", parameter.low, parameter.high);
  }
  if (parameter.kind != Parameter::Kind::kQUniform) return std::nullopt;
  const double k = std::round((*real - parameter.low) / parameter.step);
  if (std::abs(*real - stepped_value(parameter, k)) <= 1e-9 * parameter.step) return std::nullopt;
  return fmt::format("expected {} plus a multiple of {}", parameter.low, parameter.step);
}

std::optional<std::string> why_not_value(const Parameter& parameter, const Value& value) {
  switch (parameter.kind) {
    case Parameter::Kind::kChoice:
    case Parameter::Kind::kConstant: return why_not_choice(parameter, value);
    case Parameter::Kind::kInt:
    case Parameter::Kind::kIntLog: return why_not_whole(parameter, value);
    case Parameter::Kind::kUniform:
    case Parameter::Kind::kLogUniform:
    case Parameter::Kind::kQUniform:
    case Parameter::Kind::kNormal: return why_not_real(parameter, value);
  }
  return std::nullopt;
}

}  // namespace

std::string unknown_parameter(const Space& space, std::string_view name,
                              std::span<const std::string_view> others) {
  std::vector<std::string_view> names(others.begin(), others.end());
  std::ranges::transform(space.parameters, std::back_inserter(names), &Parameter::name);
  const std::string shown = one_line(std::string(name));
  if (names.empty())
    return fmt::format("unknown parameter {}: no parameter is written before this one", shown);
  const auto meant = nearest(name, names);
  if (meant) return fmt::format("unknown parameter {}: did you mean {}?", shown, *meant);
  return fmt::format("unknown parameter {}: there are {}", shown, fmt::join(names, ", "));
}

const Parameter* parameter_named(const Space& space, std::string_view name) {
  const auto found = std::ranges::find(space.parameters, name, &Parameter::name);
  return found == space.parameters.end() ? nullptr : &*found;
}

bool is_active(const Parameter& parameter, const Point& point) {
  if (!parameter.when) return true;
  const auto of = point.find(parameter.when->of);
  if (of == point.end()) return false;
  return std::ranges::find(parameter.when->values, of->second) != parameter.when->values.end();
}

std::optional<std::uint64_t> value_count(const Parameter& parameter) {
  switch (parameter.kind) {
    case Parameter::Kind::kChoice:
    case Parameter::Kind::kConstant: return parameter.choices.size();
    case Parameter::Kind::kInt:
    case Parameter::Kind::kIntLog:
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(parameter.high) -
                                        static_cast<std::int64_t>(parameter.low)) +
             1;
    case Parameter::Kind::kQUniform: return static_cast<std::uint64_t>(step_count(parameter));
    case Parameter::Kind::kUniform:
    case Parameter::Kind::kLogUniform:
    case Parameter::Kind::kNormal: return std::nullopt;
  }
  return std::nullopt;
}

Value value_at(const Parameter& parameter, double unit) {
  const double low = parameter.low, high = parameter.high;
  switch (parameter.kind) {
    case Parameter::Kind::kUniform: return std::clamp(std::lerp(low, high, unit), low, high);
    case Parameter::Kind::kLogUniform: return std::clamp(log_between(low, high, unit), low, high);
    case Parameter::Kind::kQUniform:
      return stepped_value(parameter, equal_share(unit, step_count(parameter)));
    case Parameter::Kind::kInt: return static_cast<std::int64_t>(low + equal_share(unit, high - low + 1));
    case Parameter::Kind::kIntLog: return whole_in_log(parameter, unit);
    case Parameter::Kind::kChoice:
    case Parameter::Kind::kConstant: {
      const double k = equal_share(unit, static_cast<double>(parameter.choices.size()));
      return parameter.choices.at(static_cast<std::size_t>(k));
    }
    case Parameter::Kind::kNormal: {
      constexpr double kMost = std::numeric_limits<double>::max();
      return std::clamp(low + high * normal_value_at(unit), -kMost, kMost);
    }
  }
  return parameter.low;
}

Point point_at(const Space& space, const std::vector<double>& unit) {
  CHECK(unit.size() == space.parameters.size(), "{} numbers for {} parameters", unit.size(),
        space.parameters.size());
  Point point;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    const Parameter& parameter = space.parameters[i];
    if (is_active(parameter, point)) point.emplace(parameter.name, value_at(parameter, unit[i]));
  }
  return point;
}

bool is_allowed(const Space& space, const Point& point) {
  return std::ranges::all_of(space.constraints,
                             [&](const Constraint& constraint) { return is_satisfied(constraint, point); });
}

std::optional<std::string> why_not_in(const Space& space, const Point& point) {
  for (const auto& [name, value] : point) {
    if (parameter_named(space, name) == nullptr) return unknown_parameter(space, name);
  }
  for (const Parameter& parameter : space.parameters) {
    const auto value = point.find(parameter.name);
    if (!is_active(parameter, point)) {
      if (value == point.end()) continue;
      return fmt::format("{} must be left out: it exists only if {} is {}", parameter.name,
                         parameter.when->of, listed_texts(parameter.when->values));
    }
    if (value == point.end()) return fmt::format("{} has no value", parameter.name);
    if (const auto why = why_not_value(parameter, value->second)) {
      return fmt::format("{}: `{}`: {}", parameter.name, one_line(text_of(value->second)), *why);
    }
  }
  for (const Constraint& constraint : space.constraints) {
    if (!is_satisfied(constraint, point))
      return fmt::format("the point breaks the constraint `{}`", constraint.text());
  }
  return std::nullopt;
}

}  // namespace muster::launcher::sweep
