// A random forest that predicts numbers. It also tells how much of the variance of its prediction each
// feature explains alone. This is called functional ANOVA (Hutter, Hoos and Leyton-Brown 2014).
//
// Each tree is trained on a bootstrap sample and grown until its leaves are pure (Breiman 2001). Every leaf
// is a box of the space, so all integrals over the space are exact sums over leaves. The same data and seed
// give the same result on every machine. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace muster::launcher::sweep {

struct ForestData {
  // For each feature, the number of its choices. 0 means that the feature is not a choice, but a number in
  // [0, 1].
  std::vector<std::size_t> features;
  // For each sample, a row with one number for each feature. If the feature is a choice, the number is the
  // index of the choice that the sample has.
  std::vector<std::vector<double>> rows;
  std::vector<double> targets;  // one for each sample, finite
};
struct ForestSettings {
  std::size_t trees = 64;  // this and the depth as in Optuna 5.0
  std::size_t most_depth = 64;
  std::uint64_t seed = 0;
};

struct MainEffect {
  double share = 0;      // of the trees' variance over the space, in [0, 1]
  double deviation = 0;  // the share's standard deviation over the trees
};
// Returns one effect for each feature. Returns nullopt if all trees predict the same value everywhere.
std::optional<std::vector<MainEffect>> main_effects(const ForestData& data, const ForestSettings& settings);

}  // namespace muster::launcher::sweep
