#include "launcher/core/sweep/search/parzen.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <tuple>

namespace muster::launcher::sweep {
namespace {

constexpr double kPriorWeight = 1;
constexpr std::size_t kFullWeights = 25;
const double kLogRootTwoPi = std::log(2 * std::numbers::pi) / 2;

// Returns the deviation of each observation's kernel. This is
// - the distance to its left or right neighbour, whichever is larger;
// - for the outermost observations, the distance to their only neighbour (Optuna's consider_endpoints=False);
// - for a single observation, the distance to 0 or to 1, whichever is larger.
std::vector<double> neighbour_distances(const std::vector<double>& means) {
  std::vector<std::size_t> order(means.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(means[i], i); });
  std::vector<double> distances(means.size());
  if (means.size() == 1) distances[0] = std::max(means[0], 1 - means[0]);
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const double gap = means[order[i + 1]] - means[order[i]];
    distances[order[i]] = std::max(distances[order[i]], gap);
    distances[order[i + 1]] = gap;
  }
  return distances;
}

double lower_tail(double z) {
  return 0.5 * std::erfc(-z / std::numbers::sqrt2);
}

// Returns, for each kernel, the index of the first kernel with the same mean and deviation.
std::vector<std::size_t> first_equals(const std::vector<double>& means,
                                      const std::vector<double>& deviations) {
  std::vector<std::size_t> order(means.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::tuple(means[i], deviations[i], i); });
  std::vector<std::size_t> first(means.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::size_t i = order[k];
    const bool same = k > 0 && means[order[k - 1]] == means[i] && deviations[order[k - 1]] == deviations[i];
    first[i] = same ? first[order[k - 1]] : i;
  }
  return first;
}

// Returns the logarithm of the mass that a standard normal distribution has in [low, high]. Beyond 12
// deviations, this is only an upper bound. That is enough, because the prior's kernel outweighs such a small
// mass.
double log_mass(double low, double high) {
  if (low + high < 0) {
    std::swap(low, high);
    low = -low;
    high = -high;
  }
  if (low < -9 && high > 9) return 0;  // most kernels over all of [0, 1]; exact in a double
  if (low > 12) return -low * low / 2 - kLogRootTwoPi;
  return std::log(lower_tail(-low) - lower_tail(-high));
}

}  // namespace

std::vector<double> observation_weights(std::size_t count) {
  std::vector<double> weights(count, 1);
  if (count <= kFullWeights) return weights;
  const std::size_t rising = count - kFullWeights;
  const double first = 1.0 / static_cast<double>(count);
  for (std::size_t i = 0; i < rising; ++i) {
    const double part = rising == 1 ? 0 : static_cast<double>(i) / static_cast<double>(rising - 1);
    weights[i] = first + (1 - first) * part;
  }
  return weights;
}

ParzenEstimator::ParzenEstimator(std::span<const Axis> axes, const std::vector<Coordinates>& observations)
    : axes_(axes), kernel_count_(observations.size() + 1) {
  std::vector<double> weights = observation_weights(observations.size());
  weights.push_back(kPriorWeight);
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (const double weight : weights) {
    cumulative_.push_back(sum += weight / all);
    log_weights_.push_back(std::log(weight / all));
  }
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    std::vector<double> means;
    for (const Coordinates& each : observations) means.push_back(each[axis]);
    kernels_.push_back(kernels_of(axes_[axis], std::move(means)));
    for (std::size_t i = 0; i < kernels_.back().offsets.size(); ++i)
      log_weights_[i] += kernels_.back().offsets[i];
  }
}

ParzenEstimator::Kernels ParzenEstimator::kernels_of(const Axis& axis, std::vector<double> means) const {
  Kernels kernels;
  kernels.means = std::move(means);
  if (axis.is_choice()) {
    kernels.means.push_back(0);
    return kernels;
  }
  kernels.deviations = neighbour_distances(kernels.means);
  // No kernel is narrower than this. Optuna calls it the "magic clip".
  const double least = 1 / std::min(100.0, 1 + static_cast<double>(kernel_count_));
  for (double& each : kernels.deviations) each = std::clamp(each, least, 1.0);
  kernels.means.push_back(0.5);
  kernels.deviations.push_back(1);
  if (axis.has_cells()) kernels.first_equals = first_equals(kernels.means, kernels.deviations);
  for (std::size_t i = 0; i < kernel_count_; ++i) {
    const double inverse = 1 / kernels.deviations[i];
    kernels.inverses.push_back(inverse);
    kernels.log_inverses.push_back(std::log(inverse));
    double offset = -log_mass(-kernels.means[i] * inverse, (1 - kernels.means[i]) * inverse);
    if (!axis.has_cells()) offset += kernels.log_inverses[i] - kLogRootTwoPi;
    kernels.offsets.push_back(offset);
  }
  return kernels;
}

// Returns the weight of `choice` in a kernel, as in Optuna. Each choice has the prior's weight divided by the
// number of kernels. The choice that was observed has 1 more.
double ParzenEstimator::choice_weight(const Axis& axis, double observed, double choice, bool prior) const {
  const auto choices = static_cast<double>(axis.value_count());
  if (prior) return 1 / choices;
  const double share = kPriorWeight / static_cast<double>(kernel_count_);
  return (share + (observed == choice ? 1 : 0)) / (1 + choices * share);
}

Coordinates ParzenEstimator::sample(Random& random) const {
  const auto drawn = std::ranges::upper_bound(cumulative_, random.uniform());
  const std::size_t kernel =
      std::min(static_cast<std::size_t>(drawn - cumulative_.begin()), kernel_count_ - 1);
  Coordinates coordinates;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    const Kernels& kernels = kernels_[axis];
    if (!axes_[axis].is_choice()) {
      coordinates.push_back(
          axes_[axis].snapped(random.normal_in_unit(kernels.means[kernel], kernels.deviations[kernel])));
      continue;
    }
    double left = random.uniform();
    double choice = 0;
    for (; choice + 1 < static_cast<double>(axes_[axis].value_count()); ++choice) {
      left -= choice_weight(axes_[axis], kernels.means[kernel], choice, kernel + 1 == kernel_count_);
      if (left < 0) break;
    }
    coordinates.push_back(choice);
  }
  return coordinates;
}

double ParzenEstimator::log_density(const Coordinates& at) const {
  std::vector<double> logs = log_weights_;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) add(axis, at[axis], logs);
  const double most = std::ranges::max(logs);
  double sum = 0;
  for (const double each : logs) sum += std::exp(each - most);
  return most + std::log(sum);
}

// A kernel has one factor for each axis. For each kernel, computes the factor of this axis at the coordinate
// `at`, and adds its logarithm to the kernel's entry in `logs`. Kernels::offsets are not added here, because
// log_weights_ contains them.
void ParzenEstimator::add(std::size_t axis, double at, std::vector<double>& logs) const {
  const Kernels& kernels = kernels_[axis];
  if (axes_[axis].is_choice()) {
    const double hit = std::log(choice_weight(axes_[axis], at, at, false));
    const double miss = std::log(choice_weight(axes_[axis], at, at + 1, false));
    for (std::size_t i = 0; i + 1 < kernel_count_; ++i) logs[i] += kernels.means[i] == at ? hit : miss;
    logs.back() += std::log(choice_weight(axes_[axis], at, at, true));
  } else if (axes_[axis].has_cells()) {
    add_cell(kernels, axes_[axis].cell(at), logs);
  } else {
    for (std::size_t i = 0; i < kernel_count_; ++i) {
      const double z = (at - kernels.means[i]) * kernels.inverses[i];
      logs[i] -= z * z / 2;
    }
  }
}

// Adds the logarithm of each kernel's mass in the cell. Two calls of erfc() would be slow. So if the cell is
// narrow compared with the kernel, the Taylor series of the density is used. The first term of the series
// that is left out is below 1e-3 of the mass, up to five deviations from the kernel's mean.
void ParzenEstimator::add_cell(const Kernels& kernels, Axis::Cell cell, std::vector<double>& logs) const {
  constexpr double kNarrow = 0.25;
  const double log_width = std::log(cell.high - cell.low) - kLogRootTwoPi;
  const double middle = (cell.low + cell.high) / 2;
  std::vector<double> masses(kernel_count_);
  for (std::size_t i = 0; i < kernel_count_; ++i) {
    const double inverse = kernels.inverses[i];
    const double width = (cell.high - cell.low) * inverse;
    if (const std::size_t first = kernels.first_equals[i]; first != i) {
      masses[i] = masses[first];
    } else if (width >= kNarrow) {
      masses[i] = log_mass((cell.low - kernels.means[i]) * inverse, (cell.high - kernels.means[i]) * inverse);
    } else {
      const double z = (middle - kernels.means[i]) * inverse;
      masses[i] = log_width + kernels.log_inverses[i] - z * z / 2 + width * width * (z * z - 1) / 24;
    }
    logs[i] += masses[i];
  }
}

}  // namespace muster::launcher::sweep
