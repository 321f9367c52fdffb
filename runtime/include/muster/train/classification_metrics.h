// What is counted of classes and scores, over all ranks: torchmetrics' names, options and values.
//
//   muster::F1Score f1(job, {.num_classes = 10, .average = muster::Average::kMacro});
//   for (auto& batch : loader) f1.update(net->forward(batch.data), batch.target, loader.info().mask());
//   const double score = f1.compute().item<double>();
//
// update() takes predictions [examples] of classes (integers), of two classes also the probability of class 1
// (counted above 0.5), or scores [examples, classes], of which the highest counts; targets [examples]; and
// a mask [examples], false for what is not counted: BatchInfo::mask(), which leaves out what samplers repeat,
// or target != -100. std::invalid_argument for other shapes, and for classes that there are not (on the CPU;
// on a GPU that is an assertion of CUDA's). compute() is collective. As in metrics.h otherwise.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <muster/comm/group.h>
#include <utility>
#include <vector>

namespace muster {

// Of the scores of all classes: one of all examples together; their mean over the classes that there were;
// the same, by examples of each class; a tensor of all; or, of two classes, that of class 1.
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
  at::Tensor counts_;  // undefined: nothing yet
};

// What the scores of classes have in common. compute() gives a double, [] or [classes]; a class that never
// was has 0.
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

// The area under the ROC curve, exact: all scores are kept until reset(), and compute() gathers those of one
// class at a time on one rank. kBinary: scores [examples] of class 1. kMacro, kWeighted, kNone: scores
// [examples, classes], each class against all others; they are taken as they are, so give it
// softmax(logits). A class without examples, or without others, counts with 0, and a warning says so.
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
