// Puts the trials of a sweep in order, the best first. A model of good points and other points needs this
// order.
//
// Trials that have ended are compared by their values. Other trials are compared by how far they got. A trial
// without any value has no place in the order. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "launcher/core/sweep/search/search.h"

namespace muster::launcher::sweep {

// The value as a loss: smaller is better.
inline double loss_of(Mode mode, double value) {
  return mode == Mode::kMin ? value : -value;
}

struct Ranking {
  std::vector<std::size_t> ranked;   // indices of trials, the best first
  std::vector<std::size_t> pending;  // of those without a value so far
};
// Orders the trials as Optuna 5.0 does:
// - finished trials, by value;
// - other trials with reports, by the step that they have reached, and then by value;
// - trials with NaN, failed trials, and trials whose point cannot be trained.
// If `rungs` is not empty, only values at these steps count.
Ranking rank_trials(const Objective& objective, const std::vector<std::int64_t>& rungs,
                    const std::vector<Trial>& trials);

}  // namespace muster::launcher::sweep
