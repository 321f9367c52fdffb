#include "launcher/core/sweep/search/search.h"

#include <algorithm>
#include <cmath>

#include "launcher/core/sweep/search/axis.h"
#include "launcher/core/sweep/search/grid.h"
#include "launcher/core/sweep/search/model.h"
#include "launcher/core/sweep/search/sobol.h"

namespace muster::launcher::sweep {
namespace {

constexpr int kTries = 10'000;
// If the space has constraints, point_count() tests each point and leaves out the forbidden ones. That is too
// slow for a space with more points than this limit, so there it counts all points.
constexpr std::uint64_t kMostCounted = 1 << 16;
// If this many points in a row are forbidden, the grid search gives up.
constexpr std::uint64_t kMostForbidden = 1'000'000;

std::string_view name_of(Parameter::Kind kind) {
  switch (kind) {
    case Parameter::Kind::kUniform: return "uniform";
    case Parameter::Kind::kLogUniform: return "loguniform";
    case Parameter::Kind::kNormal: return "normal";
    default: return "a range";
  }
}

// The points of `point_at_index` have the indexes from 0 to `end` - 1. Some are forbidden. Counts the others,
// and returns the one with number `index`. Returns nullopt if there are not enough of them, or if `patience`
// forbidden points in a row ended the search.
std::optional<Point> nth_allowed(const Space& space, std::uint64_t index, std::uint64_t end,
                                 std::uint64_t patience,
                                 const std::function<Point(std::uint64_t)>& point_at_index) {
  if (space.constraints.empty()) return index < end ? std::optional(point_at_index(index)) : std::nullopt;
  std::uint64_t forbidden = 0;
  for (std::uint64_t i = 0; i < end && forbidden < patience; ++i) {
    Point point = point_at_index(i);
    if (!is_allowed(space, point)) {
      ++forbidden;
      continue;
    }
    if (index-- == 0) return point;
    forbidden = 0;
  }
  return std::nullopt;
}

std::optional<Suggestion> grid(const Space& space, std::uint64_t trial) {
  const auto size = grid_size(space);
  if (!size) return std::nullopt;
  auto point = nth_allowed(space, trial, *size, kMostForbidden,
                           [&](std::uint64_t index) { return nth_point(space, index); });
  if (!point) return std::nullopt;
  return Suggestion{std::move(*point), fmt::format("grid: point {} of {}", trial + 1, *size)};
}

// Makes a point of the Sobol sequence. Each parameter that is not fixed is a dimension of the sequence.
std::optional<Suggestion> sobol(const SearchSettings& settings, const Space& space, std::uint64_t trial) {
  std::vector<std::size_t> dimensions;
  for (std::size_t i = 0; i < space.parameters.size(); ++i)
    if (!Axis(space.parameters[i]).is_fixed()) dimensions.push_back(i);
  auto point = nth_allowed(space, trial, std::uint64_t{1} << 32, kTries, [&](std::uint64_t index) {
    const auto coordinates = sobol_point(dimensions.size(), static_cast<std::uint32_t>(index), settings.seed);
    std::vector<double> unit(space.parameters.size());
    for (std::size_t i = 0; i < dimensions.size(); ++i) unit[dimensions[i]] = coordinates[i];
    return point_at(space, unit);
  });
  if (!point) return std::nullopt;
  return Suggestion{std::move(*point), fmt::format("Sobol: point {}", trial + 1)};
}

// ---- PBT's explore ----

double shrunk_or_grown(Random& random, double number) {
  return number * (random.uniform() < 0.5 ? 0.8 : 1.2);
}

Value perturbed_value(const Parameter& parameter, const Value& value, Random& random) {
  if (parameter.kind == Parameter::Kind::kConstant) return value;
  if (parameter.kind == Parameter::Kind::kChoice) {
    const bool right = random.uniform() < 0.5;
    auto at = std::ranges::find(parameter.choices, value);
    if (at == parameter.choices.end()) return value;
    // The first choice has no neighbour on its left, and the last none on its right. A step to that side
    // changes nothing.
    if (right && std::next(at) != parameter.choices.end()) return *std::next(at);
    if (!right && at != parameter.choices.begin()) return *std::prev(at);
    return value;
  }
  const auto* whole = std::get_if<std::int64_t>(&value);
  const double number = whole ? static_cast<double>(*whole) : std::get<double>(value);
  double other = shrunk_or_grown(random, number);
  if (parameter.kind == Parameter::Kind::kNormal) return other;
  if (parameter.kind == Parameter::Kind::kUniform || parameter.kind == Parameter::Kind::kLogUniform)
    return std::clamp(other, parameter.low, parameter.high);
  // Rounds to the nearest step. If this is the step that the value already has, takes the one next to it.
  const double step = parameter.kind == Parameter::Kind::kQUniform ? parameter.step : 1;
  const double steps = std::round((number - parameter.low) / step);
  double new_steps = std::round((other - parameter.low) / step);
  if (new_steps == steps) new_steps += other < number ? -1 : 1;
  const double most = static_cast<double>(value_count(parameter).value_or(1) - 1);
  return nth_value(parameter, static_cast<std::uint64_t>(std::clamp(new_steps, 0.0, most)));
}

Point perturbed_point(const Space& space, const Point& point, Random& random) {
  Point other;
  for (const Parameter& parameter : space.parameters) {
    if (!is_active(parameter, other)) continue;
    const auto old = point.find(parameter.name);
    // If the old point has no value for a parameter, a value is drawn.
    other.insert_or_assign(parameter.name, old == point.end()
                                               ? value_at(parameter, random.uniform())
                                               : perturbed_value(parameter, old->second, random));
  }
  return other;
}

}  // namespace

bool is_better(Mode mode, double value, double other) {
  if (std::isnan(value)) return false;
  if (std::isnan(other)) return true;
  return mode == Mode::kMin ? value < other : value > other;
}

Status check_search(const SearchSettings& settings, const Space& space) {
  if (settings.kind == SearchSettings::Kind::kGrid) {
    for (const Parameter& parameter : space.parameters)
      if (!value_count(parameter))
        return failure(ErrorCode::kInvalidArgument,
                       "--search grid: {} is {}, with infinitely many values; use choice, int or quniform",
                       parameter.name, name_of(parameter.kind));
    if (!grid_size(space))
      return failure(ErrorCode::kInvalidArgument,
                     "--search grid: the space has more than 2^53 points; use random, sobol or tpe");
  }
  const auto fixed = std::ranges::count_if(
      space.parameters, [](const Parameter& parameter) { return Axis(parameter).is_fixed(); });
  const std::size_t free = space.parameters.size() - static_cast<std::size_t>(fixed);
  if (settings.kind == SearchSettings::Kind::kSobol && free > kSobolDimensions)
    return failure(ErrorCode::kInvalidArgument,
                   "--search sobol: {} is one parameter too many: at most {} may have several values",
                   space.parameters.back().name, kSobolDimensions);
  const bool has_model =
      settings.kind == SearchSettings::Kind::kTpe || settings.kind == SearchSettings::Kind::kBohb;
  if (has_model && settings.objectives.empty())
    return failure(ErrorCode::kInvalidArgument, "--search {}: needs a metric: --metric NAME",
                   settings.kind == SearchSettings::Kind::kTpe ? "tpe" : "bohb");
  return {};
}

std::optional<std::uint64_t> point_count(const Space& space) {
  const auto size = grid_size(space);
  if (!size || space.constraints.empty() || *size > kMostCounted) return size;
  std::uint64_t allowed = 0;
  for (std::uint64_t i = 0; i < *size; ++i) allowed += is_allowed(space, nth_point(space, i)) ? 1 : 0;
  return allowed;
}

std::optional<Point> allowed_point(const Space& space, const std::function<Point()>& draw) {
  for (int i = 0; i < kTries; ++i) {
    Point point = draw();
    if (is_allowed(space, point)) return point;
  }
  return std::nullopt;
}

Point random_point(const Space& space, Random& random) {
  std::vector<double> unit(space.parameters.size());
  for (double& each : unit) each = random.uniform();
  return point_at(space, unit);
}

std::optional<Suggestion> suggest(const SearchSettings& settings, const Space& space,
                                  const History& history) {
  const std::uint64_t trial = history.trials().size();
  std::string reason = "random";
  std::optional<Point> point;
  switch (settings.kind) {
    case SearchSettings::Kind::kGrid: return grid(space, trial);
    case SearchSettings::Kind::kSobol: return sobol(settings, space, trial);
    case SearchSettings::Kind::kTpe: point = tpe_point(settings, space, history, reason); break;
    case SearchSettings::Kind::kBohb: point = bohb_point(settings, space, history, reason); break;
    case SearchSettings::Kind::kRandom: break;
  }
  if (!point) {
    Random random(settings.seed, static_cast<std::uint64_t>(Draws::kRandom), trial);
    point = allowed_point(space, [&] { return random_point(space, random); });
  }
  if (!point) return std::nullopt;
  return Suggestion{std::move(*point), std::move(reason)};
}

Status check_has_point(const SearchSettings& settings, const Space& space) {
  if (space.constraints.empty() || suggest(settings, space, History())) return {};
  std::string texts;
  for (const Constraint& each : space.constraints) texts += (texts.empty() ? "" : ", ") + each.text();
  const bool is_grid = settings.kind == SearchSettings::Kind::kGrid;
  const std::string points =
      is_grid ? std::to_string(std::min(grid_size(space).value_or(0), kMostForbidden)) : "10,000";
  return failure(ErrorCode::kInvalidArgument, "constraint: {}: none of {} points fulfils {}", texts, points,
                 space.constraints.size() == 1 ? "it" : "all of them");
}

Point perturbed(const Space& space, const Point& point, std::uint64_t seed, std::uint64_t nth) {
  constexpr double kAnew = 0.25;
  Random random(seed, static_cast<std::uint64_t>(Draws::kPerturbed), nth);
  auto other = allowed_point(space, [&] {
    return random.uniform() < kAnew ? random_point(space, random) : perturbed_point(space, point, random);
  });
  return other.value_or(point);
}

}  // namespace muster::launcher::sweep
