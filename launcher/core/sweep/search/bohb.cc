#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "launcher/core/sweep/search/axis.h"
#include "launcher/core/sweep/search/model.h"
#include "launcher/core/sweep/search/parzen.h"
#include "launcher/core/sweep/search/ranking.h"

namespace muster::launcher::sweep {
namespace {

// HpBandSter's defaults.
constexpr double kRandomFraction = 1.0 / 3;
constexpr std::size_t kGoodPercent = 15;
constexpr std::size_t kSamples = 64;
constexpr double kSampleWidth = 3;  // sampling has wider kernels than the density
constexpr double kLeastBandwidth = 1e-3;
constexpr double kLeastDensity = 1e-32;

struct Observation {
  std::size_t trial = 0;
  double loss = 0;
};

// Returns the losses of the trials at `rung`, the best first. At rung 0, returns the final losses of the
// finished trials. A trial that is infeasible or has failed counts as infinitely bad at each rung, up to the
// rung for which it was started.
std::vector<Observation> observations_at(const Objective& objective, std::int64_t rung,
                                         const std::vector<Trial>& trials) {
  std::vector<Observation> observations;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const Trial& trial = trials[i];
    std::optional<double> value;
    if (rung > 0)
      value = trial.value_at(objective.metric, rung);
    else if (trial.state == TrialState::kFinished)
      value = trial.newest(objective.metric);
    if (value) {
      const double loss = loss_of(objective.mode, *value);
      observations.push_back({i, std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity()});
    } else if ((trial.state == TrialState::kInfeasible || trial.state == TrialState::kFailed) &&
               (trial.until == 0 || rung <= trial.until)) {
      observations.push_back({i, std::numeric_limits<double>::infinity()});
    }
  }
  std::ranges::sort(observations, {},
                    [](const Observation& each) { return std::pair(each.loss, each.trial); });
  return observations;
}

// Estimates the density of points from samples. It has normal kernels for numbers, and the kernels of
// Aitchison and Aitken for choices, like KDEMultivariate in statsmodels.
class Density {
 public:
  Density(std::span<const Axis> axes, std::vector<Coordinates> rows) : axes_(axes), rows_(std::move(rows)) {
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const double width = bandwidth(axis);
      bandwidths_.push_back(width);
      misses_.push_back(axes_[axis].is_choice() ? width / static_cast<double>(axes_[axis].value_count() - 1)
                                                : 0);
      if (!axes_[axis].is_choice()) scale_ /= width * std::sqrt(2 * std::numbers::pi);
    }
  }

  double at(const Coordinates& coordinates) const {
    double sum = 0;
    for (const Coordinates& row : rows_) {
      double exponent = 0;  // one exp() for all normal kernels
      double product = scale_;
      for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
        if (axes_[axis].is_choice()) {
          product *= coordinates[axis] == row[axis] ? 1 - bandwidths_[axis] : misses_[axis];
        } else {
          const double z = (coordinates[axis] - row[axis]) / bandwidths_[axis];
          exponent -= z * z / 2;
        }
      }
      sum += product * std::exp(exponent);
    }
    return sum / static_cast<double>(rows_.size());
  }

  // Draws coordinates near a random row.
  Coordinates sample(Random& random) const {
    Coordinates coordinates = rows_[random.below(rows_.size())];
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      double& at = coordinates[axis];
      if (!axes_[axis].is_choice())
        at = random.normal_in_unit(at, kSampleWidth * bandwidths_[axis]);
      else if (random.uniform() < bandwidths_[axis])
        at = static_cast<double>(random.below(axes_[axis].value_count()));
    }
    return coordinates;
  }

 private:
  // Returns the bandwidth by the rule of thumb for data with a normal distribution: `1.06 * deviation *
  // rows^(-1 / (4 + axes))`.
  double bandwidth(std::size_t axis) const {
    const auto count = static_cast<double>(rows_.size());
    double mean = 0;
    for (const Coordinates& row : rows_) mean += row[axis] / count;
    double variance = 0;
    for (const Coordinates& row : rows_) variance += (row[axis] - mean) * (row[axis] - mean) / count;
    const double rule =
        1.06 * std::sqrt(variance) * std::pow(count, -1 / (4 + static_cast<double>(axes_.size())));
    // The bandwidth of a choice is a probability. With c choices it is at most (c - 1) / c, because there all
    // choices are equally dense. HpBandSter does not limit it, so its densities can be negative.
    const auto choices = static_cast<double>(axes_[axis].value_count());
    return std::clamp(rule, kLeastBandwidth, axes_[axis].is_choice() ? (choices - 1) / choices : 1);
  }

  std::span<const Axis> axes_;
  std::vector<Coordinates> rows_;
  std::vector<double> bandwidths_;
  std::vector<double> misses_;  // of choices: the kernel at another choice than its own
  double scale_ = 1;            // of the product of the normal kernels
};

// Returns the model's rows, one for each observation. If a trial's point lacks a parameter, its row gets the
// value of a random observation that has the parameter. If no observation has it, a value is drawn.
std::vector<Coordinates> rows_of(std::span<const Axis> axes, const std::vector<Trial>& trials,
                                 std::span<const Observation> observations, Random& random) {
  std::vector<Coordinates> rows(observations.size());
  for (const Axis& axis : axes) {
    std::vector<std::optional<double>> found;
    std::vector<double> known;
    for (const Observation& each : observations) {
      found.push_back(axis.coordinate_in(trials[each.trial].point));
      if (found.back()) known.push_back(*found.back());
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!found[i] && !known.empty()) found[i] = known[random.below(known.size())];
      if (!found[i])
        found[i] =
            axis.is_choice() ? static_cast<double>(random.below(axis.value_count())) : random.uniform();
      rows[i].push_back(*found[i]);
    }
  }
  return rows;
}

// Returns the point that has these coordinates. Parameters that are inactive there are left out.
Point point_of(const Space& space, std::span<const Axis> axes, const Coordinates& coordinates) {
  Point point;
  for (const Parameter& parameter : space.parameters) {
    if (!is_active(parameter, point)) continue;
    const auto axis =
        std::ranges::find_if(axes, [&](const Axis& each) { return &each.parameter() == &parameter; });
    const Value value = axis == axes.end()
                            ? Axis(parameter).value(0)
                            : axis->value(coordinates[static_cast<std::size_t>(axis - axes.begin())]);
    point.insert_or_assign(parameter.name, value);
  }
  return point;
}

struct Model {
  std::int64_t rung = 0;
  std::size_t good_count = 0;
  std::size_t other_count = 0;
  std::vector<Observation> observations;  // the best first
};

// Returns a model of the trials at one rung. This is the highest rung that has enough trials for two
// densities. Each density needs more trials than there are axes.
std::optional<Model> model_of(const SearchSettings& settings, std::size_t axes,
                              const std::vector<Trial>& trials) {
  std::vector<std::int64_t> rungs = settings.rungs;
  if (rungs.empty()) rungs.push_back(0);
  const std::size_t least = axes + 1;
  for (auto rung = rungs.rbegin(); rung != rungs.rend(); ++rung) {
    Model model{.rung = *rung, .observations = observations_at(settings.objectives.at(0), *rung, trials)};
    const std::size_t count = model.observations.size();
    model.good_count = std::max(least, kGoodPercent * count / 100);
    if (count < model.good_count + least) continue;
    model.other_count =
        std::min(count - model.good_count, std::max(least, (100 - kGoodPercent) * count / 100));
    return model;
  }
  return std::nullopt;
}

// Draws samples, and returns one of them. It is the sample with the highest ratio of two densities: that of
// the good trials, divided by that of the others. Returns nullopt if no sample satisfies the constraints.
std::optional<Point> best_sample(const Space& space, std::span<const Axis> axes, const Density& good,
                                 const Density& others, Random& random) {
  std::optional<Point> best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < kSamples; ++i) {
    const Coordinates sample = good.sample(random);
    const double ratio =
        std::max(kLeastDensity, others.at(sample)) / std::max(kLeastDensity, good.at(sample));
    if (best && ratio >= least) continue;
    Point point = point_of(space, axes, sample);
    if (!is_allowed(space, point)) continue;
    best = std::move(point);
    least = ratio;
  }
  return best;
}

}  // namespace

std::optional<Point> bohb_point(const SearchSettings& settings, const Space& space, const History& history,
                                std::string& reason) {
  const std::vector<Trial>& trials = history.trials();
  std::vector<Axis> axes;
  for (const Parameter& parameter : space.parameters)
    if (const Axis axis(parameter); !axis.is_fixed()) axes.push_back(axis);
  const auto model = model_of(settings, axes.size(), trials);
  if (!model || axes.empty()) {
    reason =
        fmt::format("random: BOHB begins after {} trials with values at one rung", 2 * (axes.size() + 1));
    return std::nullopt;
  }
  Random random(settings.seed, static_cast<std::uint64_t>(Draws::kModel), trials.size());
  if (random.uniform() < kRandomFraction) {
    reason = "random, as a third of BOHB's points";
    return std::nullopt;
  }
  const std::span<const Observation> observed = model->observations;
  const Density good(axes, rows_of(axes, trials, observed.first(model->good_count), random));
  const Density others(
      axes, rows_of(axes, trials, observed.subspan(model->good_count, model->other_count), random));
  auto point = best_sample(space, axes, good, others, random);
  reason =
      point ? fmt::format("BOHB: {} samples from {} good and {} other trials{}", kSamples, model->good_count,
                          model->other_count, model->rung > 0 ? fmt::format(" at step {}", model->rung) : "")
            : fmt::format("random: none of {} BOHB's samples keeps the constraints", kSamples);
  return point;
}

}  // namespace muster::launcher::sweep
