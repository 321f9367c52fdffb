// Metrics of classes and scores, over all ranks: torchmetrics' names, options and values.
//
//   muster::F1Score f1(job, {.num_classes = 10, .average = muster::Average::kMacro});
//   for (auto& batch : loader) f1.update(net->forward(batch.data), batch.target, loader.info().mask());
//   const double score = f1.compute().item<double>();
//
// update() takes predictions, targets [examples], and a mask. Predictions are one of these:
// - classes [examples]: integers
// - for two classes, the probabilities of class 1 [examples]: above 0.5 the prediction is class 1
// - scores [examples, classes]: the prediction is the class with the highest score
// The mask [examples] is false for examples that do not count: BatchInfo::mask(), which excludes the
// samplers' repeated samples, or target != -100. update() throws std::invalid_argument for other shapes, and
// for classes out of range (a CUDA assertion on a GPU). compute() is collective. See also metrics.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <muster/comm/group.h>
#include <utility>
#include <vector>

namespace muster {

// How the scores of the classes are combined.
// - kMicro: one score over all examples.
// - kMacro: the mean over the classes that occur.
// - kWeighted: the same mean, weighted by the number of examples per class.
// - kNone: a tensor with the score of each class.
// - kBinary: for two classes, the score of class 1.
enum class Average { kMicro, kMacro, kWeighted, kNone, kBinary };

struct ClassificationOptions {
  std::int64_t num_classes = 2;
  Average average = Average::kMacro;
};

class ConfusionMatrix {
 public:
  ConfusionMatrix(Group group, std::int64_t num_classes);

  void update(const at::Tensor& predictions, const at::Tensor& target, const at::Tensor& mask = {});
  at::Tensor compute() const;  // [class, predicted class], int64
  void reset() { counts_.reset(); }

 private:
  Group group_;
  std::int64_t num_classes_;
  at::Tensor counts_;  // undefined: no data yet
};

// The base class of the scores. compute() returns a tensor of doubles. Its shape is [classes] if the scores
// are not averaged, and otherwise []. The score of a class that never occurred is 0.
class ClassScore {
 public:
  void update(const at::Tensor& predictions, const at::Tensor& target, const at::Tensor& mask = {}) {
    matrix_.update(predictions, target, mask);
  }
  void reset() { matrix_.reset(); }

 protected:
  ClassScore(const char* metric, Group group, const ClassificationOptions& options);

  ConfusionMatrix matrix_;
  Average average_;
};

class Precision : public ClassScore {
 public:
  Precision(Group group, const ClassificationOptions& options);
  at::Tensor compute() const;
};

class Recall : public ClassScore {
 public:
  Recall(Group group, const ClassificationOptions& options);
  at::Tensor compute() const;
};

class F1Score : public ClassScore {
 public:
  F1Score(Group group, const ClassificationOptions& options);
  at::Tensor compute() const;
};

// The exact area under the ROC curve. An AUROC keeps all scores until reset(). compute() gathers the scores
// of one class at a time on one rank.
// With kBinary, update() takes scores [examples] of class 1. With kMacro, kWeighted and kNone, update() takes
// scores [examples, classes], and compute() compares each class with all others. Pass softmax(logits), not
// logits.
// If a class has no examples, or if all examples are of this class, its area is undefined. compute() then
// uses 0 for it and prints a warning.
class AUROC {
 public:
  AUROC(Group group, const ClassificationOptions& options);
  void update(const at::Tensor& scores, const at::Tensor& target, const at::Tensor& mask = {});
  at::Tensor compute() const;
  void reset();

 private:
  Group group_;
  ClassificationOptions options_;
  std::vector<at::Tensor> scores_;  // [examples, classes], or [examples, 1]
  std::vector<at::Tensor> targets_;
};

}  // namespace muster
