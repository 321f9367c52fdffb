// Numbers about a training or an evaluation, over all ranks.
//
//   muster::Accuracy accuracy(job);
//   for (auto& batch : loader) accuracy.update(net->forward(batch.data), batch.target);
//   const double share = accuracy.compute();  // of all ranks, so on all ranks
//
// update() only adds up, on the device of what it is given, without waiting for it; compute() and
// all_reduce() are collective, over CPU tensors. A metric of nothing is NaN, and a warning says so. A metric
// belongs to one thread; its group, or the job, stays while it lives.
#pragma once

#include <ATen/core/Tensor.h>
#include <concepts>
#include <cstdint>
#include <muster/collectives.h>
#include <muster/job.h>
#include <type_traits>
#include <utility>

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
  double compute() const;  // NaN, with a warning, if there was no value
  void reset() { *this = MeanMetric(group_); }

 private:
  Group group_;
  at::Tensor sum_;  // in double; undefined: 0
  double weight_ = 0;
};

// The share of examples whose highest score is that of their class.
class Accuracy {
 public:
  explicit Accuracy(Group group) : mean_(std::move(group)) {}

  // Scores [examples, classes], classes [examples]; std::invalid_argument for other shapes.
  void update(const at::Tensor& scores, const at::Tensor& target);
  double compute() const { return mean_.compute(); }  // NaN, with a warning, if there was no example
  void reset() { mean_.reset(); }

 private:
  MeanMetric mean_;
};

}  // namespace muster
