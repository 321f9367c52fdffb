#include "launcher/core/sweep/view/forest.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>

namespace muster::launcher::sweep {

namespace {

// A leaf of a tree covers a part of the space. For one feature, a Range is the set of values in this part.
struct Range {
  double low = 0;
  double high = 1;
  std::vector<bool> choices{};  // of a choice; otherwise empty
  double size() const {
    if (choices.empty()) return high - low;
    return static_cast<double>(std::ranges::count(choices, true)) / static_cast<double>(choices.size());
  }
};
using Box = std::vector<Range>;

double volume_of(const Box& box) {
  return std::transform_reduce(box.begin(), box.end(), 1.0, std::multiplies(),
                               [](const Range& range) { return range.size(); });
}

struct Leaf {
  Box box;
  double volume = 0;
  double value = 0;
};

// Divides samples by the value of one feature. If the feature is a number, samples with a value up to `at` go
// to the left. If the feature is a choice, samples with the choice `at` go to the left.
struct Split {
  std::size_t feature = 0;
  double at = 0;
  double score = 0;  // the higher, the smaller the squared error; comparable within one node
};

class Tree {
 public:
  Tree(const ForestData& data, std::size_t most_depth, std::mt19937_64& random)
      : data_(data), most_depth_(most_depth), random_(random), order_(data.features.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::vector<std::size_t> samples(data.rows.size());
    for (std::size_t& sample : samples) sample = below(samples.size());
    Box whole(data.features.size());
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i].choices.assign(data.features[i], true);
    grow(samples, std::move(whole), 0);
    for (const Leaf& leaf : leaves_) mean_ += leaf.volume * leaf.value;
  }

  // Returns the variance of the tree's prediction over the whole space.
  double variance() const {
    double sum = 0;
    for (const Leaf& leaf : leaves_) sum += leaf.volume * square(leaf.value - mean_);
    return sum;
  }

  // Returns how much of the prediction's variance this feature alone explains. For each of its values, the
  // prediction is averaged over all other features. This is the variance of that average: equation 5 of the
  // paper.
  double variance_of(std::size_t feature) const {
    return data_.features[feature] > 0 ? variance_of_choice(feature) : variance_of_number(feature);
  }

 private:
  static double square(double number) { return number * number; }
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  double target(std::size_t sample) const { return data_.targets[sample]; }

  void grow(std::span<std::size_t> samples, Box box, std::size_t depth) {
    const bool pure = std::ranges::all_of(
        samples, [&](std::size_t sample) { return target(sample) == target(samples.front()); });
    const auto split = pure || depth >= most_depth_ ? std::nullopt : best_split(samples);
    if (!split) {
      double sum = 0;
      for (const std::size_t sample : samples) sum += target(sample);
      const double volume = volume_of(box);
      leaves_.push_back({std::move(box), volume, sum / static_cast<double>(samples.size())});
      return;
    }
    const bool is_choice = data_.features[split->feature] > 0;
    const auto right = std::ranges::partition(samples, [&](std::size_t sample) {
      const double value = data_.rows[sample][split->feature];
      return is_choice ? value == split->at : value <= split->at;
    });
    const std::size_t left_count = samples.size() - right.size();
    Box right_box = box;
    Range& left_range = box[split->feature];
    Range& right_range = right_box[split->feature];
    if (is_choice) {
      const auto choice = static_cast<std::size_t>(split->at);
      left_range.choices.assign(left_range.choices.size(), false);
      left_range.choices[choice] = true;
      right_range.choices[choice] = false;
    } else {
      left_range.high = right_range.low = split->at;
    }
    grow(samples.first(left_count), std::move(box), depth + 1);
    grow(samples.subspan(left_count), std::move(right_box), depth + 1);
  }

  // If several splits are equally good, the first of them is taken. In a node of the tree with few samples,
  // many splits are equally good. If the features always came in the same order, the first feature would be
  // taken most often, and would seem too important. So the order of the features is random.
  std::optional<Split> best_split(std::span<std::size_t> samples) {
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[below(i)]);
    std::optional<Split> best;
    for (const std::size_t feature : order_) {
      if (data_.features[feature] > 0)
        try_choices(samples, feature, best);
      else
        try_numbers(samples, feature, best);
    }
    return best;
  }

  static void offer(std::optional<Split>& best, const Split& split) {
    if (!best || split.score > best->score) best = split;
  }

  static double score(double left_sum, std::size_t left_count, double all_sum, std::size_t all_count) {
    return square(left_sum) / static_cast<double>(left_count) +
           square(all_sum - left_sum) / static_cast<double>(all_count - left_count);
  }

  void try_numbers(std::span<std::size_t> samples, std::size_t feature, std::optional<Split>& best) {
    sorted_.clear();
    double all = 0;
    for (const std::size_t sample : samples) {
      sorted_.emplace_back(data_.rows[sample][feature], target(sample));
      all += target(sample);
    }
    std::ranges::sort(sorted_);
    double left = 0;
    for (std::size_t i = 0; i + 1 < sorted_.size(); ++i) {
      left += sorted_[i].second;
      if (sorted_[i].first == sorted_[i + 1].first) continue;
      const double middle = std::midpoint(sorted_[i].first, sorted_[i + 1].first);
      // If the two numbers are adjacent, `middle` may be the upper one.
      const double at = middle < sorted_[i + 1].first ? middle : sorted_[i].first;
      offer(best, {feature, at, score(left, i + 1, all, sorted_.size())});
    }
  }

  void try_choices(std::span<std::size_t> samples, std::size_t feature, std::optional<Split>& best) {
    std::vector<double> sums(data_.features[feature], 0);
    std::vector<std::size_t> counts(data_.features[feature], 0);
    double all = 0;
    for (const std::size_t sample : samples) {
      const auto choice = static_cast<std::size_t>(data_.rows[sample][feature]);
      sums[choice] += target(sample);
      ++counts[choice];
      all += target(sample);
    }
    for (std::size_t choice = 0; choice < sums.size(); ++choice) {
      if (counts[choice] == 0 || counts[choice] == samples.size()) continue;
      offer(best,
            {feature, static_cast<double>(choice), score(sums[choice], counts[choice], all, samples.size())});
    }
  }

  double variance_of_choice(std::size_t feature) const {
    std::vector<double> marginal(data_.features[feature], 0);
    for (const Leaf& leaf : leaves_) {
      const Range& range = leaf.box[feature];
      for (std::size_t i = 0; i < marginal.size(); ++i) {
        if (range.choices[i]) marginal[i] += leaf.value * leaf.volume / range.size();
      }
    }
    double sum = 0;
    for (const double value : marginal) sum += square(value - mean_);
    return sum / static_cast<double>(marginal.size());
  }

  // Averages the prediction over all other features, and returns the variance of this average. The average
  // changes only where a leaf begins or ends.
  double variance_of_number(std::size_t feature) const {
    std::vector<std::pair<double, double>> changes;
    for (const Leaf& leaf : leaves_) {
      const Range& range = leaf.box[feature];
      const double weight = leaf.value * leaf.volume / range.size();
      changes.emplace_back(range.low, weight);
      changes.emplace_back(range.high, -weight);
    }
    std::ranges::sort(changes);
    double sum = 0;
    double marginal = 0;
    for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
      marginal += changes[i].second;
      sum += (changes[i + 1].first - changes[i].first) * square(marginal - mean_);
    }
    return sum;
  }

  const ForestData& data_;
  std::size_t most_depth_;
  std::mt19937_64& random_;
  std::vector<std::size_t> order_;
  std::vector<std::pair<double, double>> sorted_;  // feature and target: memory that is used again
  std::vector<Leaf> leaves_;
  double mean_ = 0;
};

MainEffect effect_of(const std::vector<double>& shares) {
  const auto count = static_cast<double>(shares.size());
  const double mean = std::reduce(shares.begin(), shares.end()) / count;
  double squares = 0;
  for (const double share : shares) squares += (share - mean) * (share - mean);
  return {mean, std::sqrt(squares / count)};
}

}  // namespace

std::optional<std::vector<MainEffect>> main_effects(const ForestData& data, const ForestSettings& settings) {
  if (data.rows.empty()) return std::nullopt;
  std::mt19937_64 random(settings.seed);
  std::vector<std::vector<double>> shares(data.features.size());  // for each feature, by tree
  for (std::size_t i = 0; i < settings.trees; ++i) {
    const Tree tree(data, settings.most_depth, random);
    const double variance = tree.variance();
    if (!(variance > 0)) continue;
    for (std::size_t feature = 0; feature < shares.size(); ++feature)
      shares[feature].push_back(std::clamp(tree.variance_of(feature) / variance, 0.0, 1.0));
  }
  if (shares.empty() || shares.front().empty()) return std::nullopt;
  std::vector<MainEffect> effects;
  for (const auto& each : shares) effects.push_back(effect_of(each));
  return effects;
}

}  // namespace muster::launcher::sweep
