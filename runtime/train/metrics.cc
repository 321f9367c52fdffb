#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muster/train/metrics.h>
#include <stdexcept>
#include <torch/torch.h>

#include "common/base/log.h"
#include "runtime/train/metric_inputs.h"

namespace muster {
namespace {

template <class Value>
Value reduce_value(const Group& group, Value value, ReduceOp op) {
  const at::Tensor tensor = torch::full({1}, value, torch::dtype<Value>());
  muster::all_reduce(group, tensor, op);
  return tensor.item<Value>();
}

// The tensor has two elements: a sum and a weight. Adds them up over all ranks, and returns the sum divided
// by the weight.
double mean_of(const Group& group, const at::Tensor& sum_and_weight) {
  all_reduce(group, sum_and_weight);
  const auto weight = sum_and_weight[1].item<double>();
  if (weight == 0) warn_of_nothing(group);
  return sum_and_weight[0].item<double>() / weight;
}

}  // namespace

double detail::all_reduce(const Group& group, double value, ReduceOp op) {
  return reduce_value(group, value, op);
}
std::int64_t detail::all_reduce(const Group& group, std::int64_t value, ReduceOp op) {
  return reduce_value(group, value, op);
}

void warn_of_nothing(const Group& group) {
  if (group.rank() == 0)
    log::warning(
        "a metric is NaN: no rank has given update() a value since it was made or reset; was its loop empty?");
}

std::string shape_of(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

at::Tensor expanded_mask(const char* metric, const at::Tensor& mask, const at::Tensor& like) {
  if (!mask.defined()) return at::ones_like(like, at::kBool);
  const bool for_examples = mask.dim() == 1 && like.dim() > 1 && mask.size(0) == like.size(0);
  if (mask.scalar_type() != at::kBool || (!for_examples && mask.sizes() != like.sizes()))
    throw std::invalid_argument(
        fmt::format("{}: the mask is {} of {}; it must be bools of shape {}{}", metric, shape_of(mask),
                    c10::toString(mask.scalar_type()), shape_of(like),
                    like.dim() > 1 ? fmt::format(", or one for each example, [{}]", like.size(0)) : ""));
  at::Tensor here = mask.to(like.device());
  if (for_examples) {
    std::vector<std::int64_t> ones(static_cast<std::size_t>(like.dim()), 1);
    ones[0] = mask.size(0);
    here = here.view(ones).expand_as(like);
  }
  return here;
}

void check_classes(const char* metric, const at::Tensor& classes, std::int64_t num_classes) {
  if (classes.is_cuda() || classes.numel() == 0) return;
  const auto least = classes.min().item<std::int64_t>();
  const auto greatest = classes.max().item<std::int64_t>();
  if (least < 0 || greatest >= num_classes)
    throw std::invalid_argument(fmt::format("{}: an example has class {}; classes are 0 to {}", metric,
                                            least < 0 ? least : greatest, num_classes - 1));
}

void MeanMetric::update(double value, double weight) {
  update(torch::scalar_tensor(value, torch::kDouble), weight);
}
void MeanMetric::update(const at::Tensor& values, double weight) {
  const torch::NoGradGuard no_grad;
  const at::Tensor sum = values.sum(torch::kDouble) * weight;
  add(sum, torch::full_like(sum, weight * static_cast<double>(values.numel())));
}
void MeanMetric::update_masked(const at::Tensor& values, const at::Tensor& mask) {
  const torch::NoGradGuard no_grad;
  const at::Tensor here = expanded_mask("MeanMetric", mask, values);
  // A masked value can be infinite. A product of this value and 0 would be NaN, so this code uses where().
  add(torch::where(here, values, 0).sum(torch::kDouble), here.sum(torch::kDouble));
}
void MeanMetric::add(const at::Tensor& sum, const at::Tensor& weight) {
  const at::Tensor both = torch::stack({sum, weight});
  sum_and_weight_ = sum_and_weight_.defined() ? sum_and_weight_ + both.to(sum_and_weight_.device()) : both;
}

double MeanMetric::compute() const {
  return mean_of(group_, sum_and_weight_.defined() ? sum_and_weight_.to(at::kCPU, at::kDouble, false, true)
                                                   : torch::zeros({2}, torch::kDouble));
}

void Accuracy::update(const at::Tensor& scores, const at::Tensor& target, const at::Tensor& mask) {
  if (scores.dim() != 2 || target.dim() != 1 || scores.size(0) != target.size(0))
    throw std::invalid_argument(
        fmt::format("Accuracy: scores are {} and classes {}; they must be [examples, classes] and [examples]",
                    shape_of(scores), shape_of(target)));
  if (top_k_ < 1 || top_k_ > scores.size(1))
    throw std::invalid_argument(fmt::format(
        "Accuracy: top_k is {}; it must be between 1 and {}, the number of classes", top_k_, scores.size(1)));
  const torch::NoGradGuard no_grad;
  const at::Tensor counted = expanded_mask("Accuracy", mask, target);
  // Puts class 0 in the place of each target that is masked, because such a target need not be a valid class.
  check_classes("Accuracy", torch::where(counted, target, 0), scores.size(1));
  const at::Tensor here = target.to(scores.device());
  const at::Tensor right = top_k_ == 1 ? scores.argmax(1).eq(here)
                                       : std::get<1>(scores.topk(top_k_, 1)).eq(here.unsqueeze(1)).any(1);
  if (mask.defined())
    mean_.update_masked(right, counted);
  else
    mean_.update(right);
}

void MeanSquaredError::update(const at::Tensor& predictions, const at::Tensor& target,
                              const at::Tensor& mask) {
  if (predictions.sizes() != target.sizes())
    throw std::invalid_argument(fmt::format("MeanSquaredError: predictions are {} and targets {}",
                                            shape_of(predictions), shape_of(target)));
  const torch::NoGradGuard no_grad;
  const at::Tensor squares = (predictions - target.to(predictions.device())).square();
  if (mask.defined())
    mean_.update_masked(squares, expanded_mask("MeanSquaredError", mask, squares));
  else
    mean_.update(squares);
}

void Perplexity::update(const at::Tensor& logits, const at::Tensor& target, const at::Tensor& mask) {
  if (logits.dim() != target.dim() + 1 ||
      logits.sizes().slice(0, static_cast<std::size_t>(target.dim())) != target.sizes())
    throw std::invalid_argument(
        fmt::format("Perplexity: logits are {} and tokens {}; they must be [..., vocabulary] and [...]",
                    shape_of(logits), shape_of(target)));
  const torch::NoGradGuard no_grad;
  const at::Tensor counted = expanded_mask("Perplexity", mask, target);
  // If a target is masked, it can be outside of the vocabulary, for example -100.
  const at::Tensor tokens = torch::where(counted, target, 0).to(logits.device(), at::kLong).unsqueeze(-1);
  const at::Tensor surprise = -torch::log_softmax(logits, -1, at::kDouble).gather(-1, tokens).squeeze(-1);
  mean_.update_masked(surprise, counted);
}
double Perplexity::compute() const {
  return std::exp(mean_.compute());
}

void RunningMean::update(double value) {
  update(torch::scalar_tensor(value, torch::kDouble));
}
void RunningMean::update(const at::Tensor& values) {
  if (window_ < 1)
    throw std::invalid_argument(fmt::format("RunningMean: the window is {}; it must be at least 1", window_));
  const torch::NoGradGuard no_grad;
  updates_.emplace_back(values.sum(torch::kDouble), values.numel());
  if (std::ssize(updates_) > window_) updates_.pop_front();
}
double RunningMean::compute() const {
  double sum = 0;
  std::int64_t count = 0;
  for (const auto& [of_one, values] : updates_) {
    sum += of_one.item<double>();
    count += values;
  }
  return mean_of(group_, torch::tensor({sum, static_cast<double>(count)}, torch::kDouble));
}

void Quantile::update(double value) {
  update(torch::full({1}, value, torch::kDouble));
}
void Quantile::update(const at::Tensor& values, const at::Tensor& mask) {
  const torch::NoGradGuard no_grad;
  const at::Tensor all = values.to(torch::kDouble);
  values_.push_back(mask.defined() ? all.masked_select(expanded_mask("Quantile", mask, values))
                                   : all.flatten().clone());
}
std::vector<double> Quantile::compute(const std::vector<double>& q) const {
  for (const double each : q)
    if (!(each >= 0 && each <= 1))
      throw std::invalid_argument(fmt::format("Quantile: {} is not between 0 and 1", each));
  std::vector<at::Tensor> mine{torch::empty({0}, torch::kDouble)};
  for (const at::Tensor& each : values_) mine.push_back(each.cpu());
  const at::Tensor sorted = std::get<0>(torch::cat(all_gather(group_, torch::cat(mine))).sort());
  const std::int64_t count = sorted.numel();
  if (count == 0) warn_of_nothing(group_);
  std::vector<double> quantiles;
  for (const double each : q) {
    if (count == 0) {
      quantiles.push_back(std::nan(""));
      continue;
    }
    const double place = each * static_cast<double>(count - 1);
    const auto below = static_cast<std::int64_t>(place);
    const auto low = sorted[below].item<double>();
    const auto high = sorted[std::min(below + 1, count - 1)].item<double>();
    const double share = place - static_cast<double>(below);
    quantiles.push_back(share == 0 || low == high ? low : std::lerp(low, high, share));
  }
  return quantiles;
}

}  // namespace muster
