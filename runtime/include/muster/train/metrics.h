// Numbers about a training or an evaluation, over all ranks.
//
//   muster::Accuracy accuracy(job);
//   for (auto& batch : loader) accuracy.update(net->forward(batch.data), batch.target, loader.info().mask());
//   const double share = accuracy.compute();  // of all ranks, so on all ranks
//
// update() only adds up, on the device of what it is given, without waiting for it; compute() and
// all_reduce() are collective, over CPU tensors. A mask of bools, one for each example, is false for what is
// not counted: that of BatchInfo leaves out what samplers repeat to make the ranks even. A metric of nothing
// is NaN, and a warning says so. A metric belongs to one thread; its group, or the job, stays while it lives.
// Of classes: classification_metrics.h.
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

// One number from each rank's, the same on all. Integers go through 64 bits, others through double.
template <class Value>
  requires std::is_arithmetic_v<Value>
Value all_reduce(const Group& group, Value value, ReduceOp op = ReduceOp::kSum) {
  using Wide = std::conditional_t<std::integral<Value>, std::int64_t, double>;
  return static_cast<Value>(detail::all_reduce(group, static_cast<Wide>(value), op));
}

// The weighted mean of all values of all ranks since the last reset().
class MeanMetric {
 public:
  explicit MeanMetric(Group group) : group_(std::move(group)) {}

  void update(double value, double weight = 1.0);
  // Each element has this weight. A mean loss of a batch weighs as much as the batch has examples.
  void update(const at::Tensor& values, double weight = 1.0);
  // Elements that the mask, of the same shape, is true for.
  void update_masked(const at::Tensor& values, const at::Tensor& mask);
  double compute() const;  // NaN, with a warning, if there was no value
  void reset() { *this = MeanMetric(group_); }

 private:
  void add(const at::Tensor& sum, const at::Tensor& weight);

  Group group_;
  at::Tensor sum_and_weight_;  // in double; undefined: 0
};

// The share of examples whose class has one of the top_k highest scores.
class Accuracy {
 public:
  explicit Accuracy(Group group, std::int64_t top_k = 1) : mean_(std::move(group)), top_k_(top_k) {}

  // Scores [examples, classes], classes [examples]; std::invalid_argument for other shapes, and for a class
  // that has no score, as far as that shows without waiting for a GPU.
  void update(const at::Tensor& scores, const at::Tensor& target, const at::Tensor& mask = {});
  double compute() const { return mean_.compute(); }  // NaN, with a warning, if there was no example
  void reset() { mean_.reset(); }

 private:
  MeanMetric mean_;
  std::int64_t top_k_;
};

// The mean over all elements of (prediction - target)^2.
class MeanSquaredError {
 public:
  explicit MeanSquaredError(Group group) : mean_(std::move(group)) {}

  // Of one shape, [examples, ...].
  void update(const at::Tensor& predictions, const at::Tensor& target, const at::Tensor& mask = {});
  double compute() const { return mean_.compute(); }
  void reset() { mean_.reset(); }

 private:
  MeanMetric mean_;
};

// e to the mean of -log softmax(logits)[target].
class Perplexity {
 public:
  explicit Perplexity(Group group) : mean_(std::move(group)) {}

  // Logits [..., vocabulary], tokens [...]. The mask has the shape of the tokens, such as target != -100, or
  // is one for each example.
  void update(const at::Tensor& logits, const at::Tensor& target, const at::Tensor& mask = {});
  double compute() const;
  void reset() { mean_.reset(); }

 private:
  MeanMetric mean_;
};

// The mean of all values that the last updates, `window` of them on each rank, were given.
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
  std::deque<std::pair<at::Tensor, std::int64_t>> updates_;  // sum and count of each
};

// Percentiles of all values of all ranks, exact: all are kept until reset(), in double, and gathered.
class Quantile {
 public:
  explicit Quantile(Group group) : group_(std::move(group)) {}

  void update(double value);
  void update(const at::Tensor& values, const at::Tensor& mask = {});
  // For each q between 0 and 1 the value below which that share of them lies, between two of them by a
  // straight line, as torch.quantile. std::invalid_argument for another q.
  std::vector<double> compute(const std::vector<double>& q) const;
  void reset() { values_.clear(); }

 private:
  Group group_;
  std::vector<at::Tensor> values_;
};

}  // namespace muster
