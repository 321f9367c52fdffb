// A Parzen estimator, that is, a density over several parameters at once. It is the same as in Optuna 5.0's
// multivariate TPE. The density is the weighted mean of one kernel for each observation and one for the
// prior.
//
// A kernel is a product with one factor for each axis. A number's factor is a normal distribution cut to [0,
// 1], or the mass of that distribution in each cell. A choice's factor is a table. Pure.
#pragma once

#include <span>
#include <vector>

#include "launcher/core/sweep/search/axis.h"
#include "launcher/core/sweep/search/random.h"

namespace muster::launcher::sweep {

using Coordinates = std::vector<double>;  // one for each axis

class ParzenEstimator {
 public:
  // `observations` must be in the order of their trials, because older ones have less weight. The axes must
  // outlive the estimator.
  ParzenEstimator(std::span<const Axis> axes, const std::vector<Coordinates>& observations);

  Coordinates sample(Random& random) const;
  // Returns the logarithm of the density. On axes that have cells or choices, the factor is a probability and
  // not a density.
  double log_density(const Coordinates& at) const;

 private:
  struct Kernels {  // of one axis: one for each observation, then the prior's
    std::vector<double> means;
    std::vector<double> deviations;
    std::vector<double> inverses;  // of the deviations
    std::vector<double> log_inverses;
    std::vector<double> offsets;  // of the logarithm: so that the kernel's integral over [0, 1] is 1
    // Only for axes with cells. Equal kernels have the same mass in each cell, so it is computed only once.
    // For each kernel, this is the index of the first kernel that equals it.
    std::vector<std::size_t> first_equals;
  };
  Kernels kernels_of(const Axis& axis, std::vector<double> means) const;
  double choice_weight(const Axis& axis, double observed, double choice, bool prior) const;
  void add(std::size_t axis, double at, std::vector<double>& logs) const;
  void add_cell(const Kernels& kernels, Axis::Cell cell, std::vector<double>& logs) const;

  std::span<const Axis> axes_;
  std::size_t kernel_count_;
  std::vector<double> cumulative_;   // weights, up to 1
  std::vector<double> log_weights_;  // with the offsets of all axes
  std::vector<Kernels> kernels_;
};

// Returns the weights of `count` observations. The newest 25 have the weight 1. The weights of older ones
// rise linearly from 1 / count to 1 (Bergstra, Yamins, Cox 2013; Optuna's default_weights).
std::vector<double> observation_weights(std::size_t count);

}  // namespace muster::launcher::sweep
