// Numbers about a training or an evaluation, over all ranks.
//
//   muster::Accuracy accuracy(job);
//   for (auto& batch : loader) accuracy.update(net->forward(batch.data), batch.target, loader.info().mask());
//   const double share = accuracy.compute();  // over all ranks, so call it on all ranks
//
// update() only adds, on the device of its arguments, without waiting for the device. compute() and
// all_reduce() are collective, over CPU tensors. A mask has a bool for each example, false for examples that
// do not count: BatchInfo::mask() excludes the samplers' repeated samples. Without data, compute() warns and
// returns NaN. One thread uses a metric. For classes see classification_metrics.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <concepts>
#include <cstdint>
#include <deque>
#include <muster/comm/collectives.h>
#include <muster/comm/job.h>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

namespace detail {
double all_reduce(const Group& group, double value, ReduceOp op);
std::int64_t all_reduce(const Group& group, std::int64_t value, ReduceOp op);
}  // namespace detail

// Reduces one number of each rank; all ranks get the result. Integers use 64 bits, other types double.
template <class Value>
  requires std::is_arithmetic_v<Value>
Value all_reduce(const Group& group, Value value, ReduceOp op = ReduceOp::kSum) {
  using Wide = std::conditional_t<std::integral<Value>, std::int64_t, double>;
  return static_cast<Value>(detail::all_reduce(group, static_cast<Wide>(value), op));
}

// The weighted mean of all ranks' values since the last reset().
class MeanMetric {
 public:
  explicit MeanMetric(Group group) : group_(std::move(group)) {}

  void update(double value, double weight = 1.0);
  // Gives every element this weight. For the mean loss of a batch, pass the number of its examples.
  void update(const at::Tensor& values, double weight = 1.0);
  // Takes only elements for which the mask, of the same shape, is true.
  void update_masked(const at::Tensor& values, const at::Tensor& mask);
  double compute() const;  // without values: warns, and returns NaN
  void reset() { *this = MeanMetric(group_); }

 private:
  void add(const at::Tensor& sum, const at::Tensor& weight);

  Group group_;
  at::Tensor sum_and_weight_;  // in double; undefined: 0
};

// The fraction of examples whose class is among the top_k highest scores.
class Accuracy {
 public:
  explicit Accuracy(Group group, std::int64_t top_k = 1) : mean_(std::move(group)), top_k_(top_k) {}

  // `scores`: [examples, classes]; `target`: the classes, [examples]. Throws std::invalid_argument for other
  // shapes. For tensors on the CPU, also throws it for a class without a score.
  void update(const at::Tensor& scores, const at::Tensor& target, const at::Tensor& mask = {});
  double compute() const { return mean_.compute(); }  // without examples: warns, and returns NaN
  void reset() { mean_.reset(); }

 private:
  MeanMetric mean_;
  std::int64_t top_k_;
};

// The mean of (prediction - target)^2 over all elements.
class MeanSquaredError {
 public:
  explicit MeanSquaredError(Group group) : mean_(std::move(group)) {}

  // `predictions` and `target` have the same shape, [examples, ...].
  void update(const at::Tensor& predictions, const at::Tensor& target, const at::Tensor& mask = {});
  double compute() const { return mean_.compute(); }
  void reset() { mean_.reset(); }

 private:
  MeanMetric mean_;
};

// exp(mean of -log softmax(logits)[target]).
class Perplexity {
 public:
  explicit Perplexity(Group group) : mean_(std::move(group)) {}

  // `logits`: [..., vocabulary]; `target`: the tokens, [...]. The mask has the shape of the tokens, such as
  // target != -100, or one element per example.
  void update(const at::Tensor& logits, const at::Tensor& target, const at::Tensor& mask = {});
  double compute() const;
  void reset() { mean_.reset(); }

 private:
  MeanMetric mean_;
};

// The mean of the values in the last `window` updates of each rank.
class RunningMean {
 public:
  RunningMean(Group group, std::int64_t window) : group_(std::move(group)), window_(window) {}

  void update(double value);
  void update(const at::Tensor& values);
  double compute() const;
  void reset() { updates_.clear(); }

 private:
  Group group_;
  std::int64_t window_;
  std::deque<std::pair<at::Tensor, std::int64_t>> updates_;  // sum and count of each update
};

// Exact percentiles of all ranks' values: keeps the values until reset(), in double; compute() gathers them.
class Quantile {
 public:
  explicit Quantile(Group group) : group_(std::move(group)) {}

  void update(double value);
  void update(const at::Tensor& values, const at::Tensor& mask = {});
  // Returns, for each q in [0, 1], the q-quantile, with linear interpolation, as torch.quantile. Throws
  // std::invalid_argument for another q.
  std::vector<double> compute(const std::vector<double>& q) const;
  void reset() { values_.clear(); }

 private:
  Group group_;
  std::vector<at::Tensor> values_;
};

}  // namespace muster
