#include <fmt/format.h>
#include <limits>
#include <muster/comm/collectives.h>
#include <muster/train/classification_metrics.h>
#include <stdexcept>
#include <torch/torch.h>

#include "common/base/log.h"
#include "runtime/train/metric_inputs.h"

namespace muster {
namespace {

const ClassificationOptions& checked(const char* metric, const ClassificationOptions& options) {
  if (options.num_classes < 2)
    throw std::invalid_argument(
        fmt::format("{}: num_classes is {}; it must be at least 2", metric, options.num_classes));
  if (options.average == Average::kBinary && options.num_classes != 2)
    throw std::invalid_argument(
        fmt::format("{}: kBinary is for 2 classes, not {}", metric, options.num_classes));
  return options;
}

at::Tensor predicted_classes(const at::Tensor& predictions, std::int64_t num_classes) {
  if (predictions.dim() == 2 && predictions.size(1) == num_classes) return predictions.argmax(1);
  if (predictions.dim() == 1 && !predictions.is_floating_point()) return predictions.to(at::kLong);
  if (predictions.dim() == 1 && num_classes == 2) return predictions.gt(0.5).to(at::kLong);
  throw std::invalid_argument(
      fmt::format("predictions are {} of {}; they must be classes [examples]{} or scores [examples, {}]",
                  shape_of(predictions), c10::toString(predictions.scalar_type()),
                  num_classes == 2 ? ", probabilities [examples]" : "", num_classes));
}

// Divides `part` by `whole` for each class. The result is 0 where `whole` is 0. The counts are doubles. These
// are exact up to `2^53`.
at::Tensor quotient(const at::Tensor& part, const at::Tensor& whole) {
  return torch::where(whole != 0, part / whole, 0.0);
}

// Computes a score from the counts in `matrix`. Its rows are the true classes, and its columns are the
// predicted classes. The counts are doubles. `score` computes a score from three numbers: the hits, the wrong
// predictions and the misses. `average` says how the scores of the classes are combined.
template <class Score>
at::Tensor averaged(const at::Tensor& matrix, Average average, const Score& score) {
  const at::Tensor hit = matrix.diagonal();
  const at::Tensor wrong = matrix.sum(0) - hit;
  const at::Tensor missed = matrix.sum(1) - hit;
  if (average == Average::kMicro) return score(hit.sum(), wrong.sum(), missed.sum());
  const at::Tensor of_classes = score(hit, wrong, missed);
  if (average == Average::kNone) return of_classes;
  if (average == Average::kBinary) return of_classes[1];
  const at::Tensor weights =
      average == Average::kWeighted ? hit + missed : (hit + wrong + missed != 0).to(torch::kDouble);
  return quotient((weights * of_classes).sum(), weights.sum());
}

// Returns the area under the curve of one class. Consider all pairs of an example of the class and an
// example of another class. The area is the share of pairs in which the first example has the higher score.
// A tie counts half.
double area_under_curve(const at::Tensor& scores, const at::Tensor& is_class) {
  const auto positives = is_class.sum().item<double>();
  const double negatives = static_cast<double>(scores.numel()) - positives;
  if (positives == 0 || negatives == 0) return 0;
  const auto [sorted, order] = scores.sort();
  const auto [values, inverse, counts] =
      torch::unique_consecutive(sorted, /*return_inverse=*/true, /*return_counts=*/true);
  const at::Tensor ends = counts.cumsum(0).to(torch::kDouble);
  const at::Tensor middles =
      ends - (counts.to(torch::kDouble) - 1) / 2;  // ranks from 1; ties share their mean
  const double ranks =
      middles.index_select(0, inverse).masked_select(is_class.index_select(0, order)).sum().item<double>();
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(Group group, std::int64_t num_classes)
    : group_(std::move(group)),
      num_classes_(checked("ConfusionMatrix", {.num_classes = num_classes}).num_classes) {}

void ConfusionMatrix::update(const at::Tensor& predictions, const at::Tensor& target,
                             const at::Tensor& mask) {
  const torch::NoGradGuard no_grad;
  const at::Tensor predicted = predicted_classes(predictions, num_classes_);
  if (target.sizes() != predicted.sizes() || target.is_floating_point())
    throw std::invalid_argument(fmt::format("there are {} predictions, and targets {} of {}",
                                            predicted.numel(), shape_of(target),
                                            c10::toString(target.scalar_type())));
  const at::Tensor counted = expanded_mask("a confusion matrix", mask, predicted);
  // A masked value need not be a valid class. So it is replaced by class 0, and it adds 0 to the count of
  // class 0.
  const at::Tensor row = torch::where(counted, target.to(predicted.device(), at::kLong), 0);
  const at::Tensor column = torch::where(counted, predicted, 0);
  check_classes("the targets", row, num_classes_);
  check_classes("the predictions", column, num_classes_);
  if (!counts_.defined())
    counts_ = torch::zeros({num_classes_ * num_classes_}, predicted.options().dtype(at::kLong));
  const at::Tensor cells = (row * num_classes_ + column).to(counts_.device());
  counts_.scatter_add_(0, cells, counted.to(counts_.device(), at::kLong));
}

at::Tensor ConfusionMatrix::compute() const {
  const at::Tensor counts = counts_.defined() ? counts_.to(at::kCPU, at::kLong, false, true)
                                              : torch::zeros({num_classes_ * num_classes_}, torch::kLong);
  all_reduce(group_, counts);
  return counts.view({num_classes_, num_classes_});
}

ClassScore::ClassScore(const char* metric, Group group, const ClassificationOptions& options)
    : matrix_(std::move(group), checked(metric, options).num_classes), average_(options.average) {}

Precision::Precision(Group group, const ClassificationOptions& options)
    : ClassScore("Precision", std::move(group), options) {}
at::Tensor Precision::compute() const {
  return averaged(
      matrix_.compute().to(torch::kDouble), average_,
      [](const auto& hit, const auto& wrong, const auto& /*missed*/) { return quotient(hit, hit + wrong); });
}

Recall::Recall(Group group, const ClassificationOptions& options)
    : ClassScore("Recall", std::move(group), options) {}
at::Tensor Recall::compute() const {
  return averaged(
      matrix_.compute().to(torch::kDouble), average_,
      [](const auto& hit, const auto& /*wrong*/, const auto& missed) { return quotient(hit, hit + missed); });
}

F1Score::F1Score(Group group, const ClassificationOptions& options)
    : ClassScore("F1Score", std::move(group), options) {}
at::Tensor F1Score::compute() const {
  return averaged(matrix_.compute().to(torch::kDouble), average_,
                  [](const auto& hit, const auto& wrong, const auto& missed) {
                    return quotient(2 * hit, 2 * hit + wrong + missed);
                  });
}

AUROC::AUROC(Group group, const ClassificationOptions& options)
    : group_(std::move(group)), options_(checked("AUROC", options)) {
  if (options_.average == Average::kMicro) throw std::invalid_argument("AUROC: kMicro is not supported");
}

void AUROC::reset() {
  scores_.clear();
  targets_.clear();
}

void AUROC::update(const at::Tensor& scores, const at::Tensor& target, const at::Tensor& mask) {
  const torch::NoGradGuard no_grad;
  const bool binary = options_.average == Average::kBinary;
  const bool fits = binary ? scores.dim() == 1 : scores.dim() == 2 && scores.size(1) == options_.num_classes;
  if (!fits || target.dim() != 1 || target.size(0) != scores.size(0) || target.is_floating_point() ||
      !scores.is_floating_point())
    throw std::invalid_argument(fmt::format(
        "AUROC: scores are {} of {} and targets {} of {}; they must be probabilities {} and classes [examples]",
        shape_of(scores), c10::toString(scores.scalar_type()), shape_of(target),
        c10::toString(target.scalar_type()),
        binary ? "[examples]" : fmt::format("[examples, {}]", options_.num_classes)));
  const at::Tensor counted = expanded_mask("AUROC", mask, target);
  const at::Tensor classes = target.to(at::kLong).masked_select(counted);
  check_classes("AUROC", classes, options_.num_classes);
  scores_.push_back(
      (binary ? scores.unsqueeze(1) : scores).index({counted.to(scores.device())}).to(torch::kDouble));
  targets_.push_back(classes);
}

at::Tensor AUROC::compute() const {
  const std::int64_t columns = options_.average == Average::kBinary ? 1 : options_.num_classes;
  std::vector<at::Tensor> scores{torch::empty({0, columns}, torch::kDouble)};
  std::vector<at::Tensor> targets{torch::empty({0}, torch::kLong)};
  for (const at::Tensor& each : scores_) scores.push_back(each.cpu());
  for (const at::Tensor& each : targets_) targets.push_back(each.cpu());
  const at::Tensor mine = torch::cat(scores);
  const at::Tensor classes = torch::cat(all_gather(group_, torch::cat(targets)));
  if (classes.numel() == 0) {
    warn_of_nothing(group_);
    return torch::full(options_.average == Average::kNone ? at::IntArrayRef(columns) : at::IntArrayRef(),
                       std::numeric_limits<double>::quiet_NaN(), torch::kDouble);
  }
  // Each rank computes the areas of some classes.
  const at::Tensor areas = torch::zeros({columns}, torch::kDouble);
  for (std::int64_t column = 0; column < columns; ++column) {
    const int maker = group_.ranks()[static_cast<std::size_t>(column % group_.size())];
    const auto parts = gather(group_, mine.select(1, column).contiguous(), maker);
    if (!parts.empty())
      areas[column] = area_under_curve(torch::cat(parts), classes.eq(columns == 1 ? 1 : column));
  }
  all_reduce(group_, areas);
  const at::Tensor counts = torch::bincount(classes, {}, options_.num_classes);
  const at::Tensor absent = counts.eq(0).logical_or(counts.eq(classes.numel()));
  if (group_.rank() == 0 && absent.any().item<bool>())
    log::warning("AUROC: class {} has {} of {} examples; its area counts as 0",
                 absent.nonzero()[0].item<std::int64_t>(),
                 counts[absent.nonzero()[0].item<std::int64_t>()].item<std::int64_t>(), classes.numel());
  if (options_.average == Average::kNone) return areas;
  if (options_.average == Average::kBinary) return areas[0];
  if (options_.average == Average::kMacro) return areas.mean();
  return (areas * (counts.to(torch::kDouble) / static_cast<double>(classes.numel()))).sum();
}

}  // namespace muster
