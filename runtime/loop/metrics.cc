#include <fmt/core.h>
#include <fmt/ranges.h>
#include <muster/metrics.h>
#include <stdexcept>
#include <torch/torch.h>

#include "common/base/log.h"

namespace muster {
namespace {

template <class Value>
Value reduce_value(const Group& group, Value value, ReduceOp op) {
  const at::Tensor tensor = torch::full({1}, value, torch::dtype<Value>());
  muster::all_reduce(group, tensor, op);
  return tensor.item<Value>();
}

}  // namespace

double detail::all_reduce(const Group& group, double value, ReduceOp op) {
  return reduce_value(group, value, op);
}
std::int64_t detail::all_reduce(const Group& group, std::int64_t value, ReduceOp op) {
  return reduce_value(group, value, op);
}

void MeanMetric::update(double value, double weight) {
  update(torch::scalar_tensor(value, torch::kDouble), weight);
}

void MeanMetric::update(const at::Tensor& values, double weight) {
  const torch::NoGradGuard no_grad;
  const at::Tensor sum = values.sum(torch::kDouble) * weight;
  sum_ = sum_.defined() ? sum_ + sum.to(sum_.device()) : sum;
  weight_ += weight * static_cast<double>(values.numel());
}

double MeanMetric::compute() const {
  const double mine = sum_.defined() ? sum_.item<double>() : 0;
  const at::Tensor both = torch::tensor({mine, weight_}, torch::kDouble);
  all_reduce(group_, both);
  const auto weight = both[1].item<double>();
  if (weight == 0 && group_.rank() == 0)
    log::warning(
        "a metric is NaN: no rank has given update() a value since it was made or reset; was its loop "
        "empty?");
  return both[0].item<double>() / weight;
}

void Accuracy::update(const at::Tensor& scores, const at::Tensor& target) {
  if (scores.dim() != 2 || target.dim() != 1 || scores.size(0) != target.size(0))
    throw std::invalid_argument(fmt::format(
        "Accuracy: scores are [{}] and classes [{}]; they must be [examples, classes] and [examples]",
        fmt::join(scores.sizes(), ", "), fmt::join(target.sizes(), ", ")));
  mean_.update(scores.argmax(1).eq(target.to(scores.device())));
}

}  // namespace muster
