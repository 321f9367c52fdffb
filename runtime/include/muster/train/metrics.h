// Numbers about a training or an evaluation, over all ranks.
//
//   muster::Accuracy accuracy(job);
//   for (auto& batch : loader) accuracy.update(net->forward(batch.data), batch.target, loader.info().mask());
//   const double share = accuracy.compute();  // over all ranks, so call it on all ranks
//
// update() adds its arguments to sums on their device, and does not wait for the device. compute() and
// all_reduce() are collective and send CPU tensors. A mask has a bool for each example. It is false for an
// example that does not count; for example, BatchInfo::mask() is false for samples that the sampler has
// repeated. If there was no data, compute() warns and returns NaN. Only one thread may use a metric. Metrics
// of classes are in classification_metrics.h.
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

// Reduces one number of each rank. All ranks get the result. The computation uses 64-bit integers for
// integers, and double for other types.
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
  // Adds the elements of `values`, each with this weight. If `values` is the mean loss of a batch, pass the
  // number of its examples as the weight.
  void update(const at::Tensor& values, double weight = 1.0);
  // Adds only the elements for which the mask is true. The mask must have the shape of `values`.
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

  // `scores` has the shape [examples, classes]. `target` has the shape [examples] and contains the classes.
  // For other shapes, throws std::invalid_argument. If the tensors are on the CPU, also throws it if `target`
  // has a class that is not in `scores`.
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

  // `logits` has the shape [..., vocabulary]. `target` has the shape [...] and contains the tokens. The mask
  // has the shape of `target`, such as target != -100, or it has one element per example.
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

// Exact percentiles of the values of all ranks. A Quantile keeps all values until reset(), as doubles.
// compute() gathers them from all ranks.
class Quantile {
 public:
  explicit Quantile(Group group) : group_(std::move(group)) {}

  void update(double value);
  void update(const at::Tensor& values, const at::Tensor& mask = {});
  // Returns the q-quantile for each q in the list, with linear interpolation, as torch.quantile does. Throws
  // std::invalid_argument if a q is outside [0, 1].
  std::vector<double> compute(const std::vector<double>& q) const;
  void reset() { values_.clear(); }

 private:
  Group group_;
  std::vector<at::Tensor> values_;
};

}  // namespace muster
