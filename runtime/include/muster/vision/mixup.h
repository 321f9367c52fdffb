// MixUp (Zhang et al., 2017) and CutMix (Yun et al., 2019), as in torchvision. Both mix each image of a batch
// with the previous image, and their labels likewise.
//
//   const muster::transforms::MixUp mix({.num_classes = 10});
//   muster::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true, .num_workers = 4}, job,
//                             [&](std::vector<muster::Example> samples) {
//                               return mix(muster::default_collate(samples));
//                             });
//
// Function objects that map a batch to a batch. Input: data [batch, channels, height, width] (floating-point
// for MixUp), target int64 [batch] or [batch, classes]. Output: target [batch, classes], floating-point. Any
// device. They draw from sample_random(). In a collate_fn, the same batch gives the same result with any
// worker and after a restart. In the training loop, where no sample is being read, the result is the same
// only without workers. They throw std::invalid_argument, which says what does not fit. Safe from any thread.
#pragma once

#include <cstdint>
#include <muster/data/dataset.h>

namespace muster::transforms {

struct MixUpOptions {
  double alpha = 1;              // the mixing ratio is drawn from Beta(alpha, alpha)
  std::int64_t num_classes = 0;  // may be omitted if targets are [batch, classes]
};
class MixUp {
 public:
  explicit MixUp(MixUpOptions options = {});
  Batch operator()(const Batch& batch) const;

 private:
  MixUpOptions options_;
};

// Pastes a rectangle of the previous image, and mixes the labels by the rectangle's area.
class CutMix {
 public:
  explicit CutMix(MixUpOptions options = {});
  Batch operator()(const Batch& batch) const;

 private:
  MixUpOptions options_;
};

}  // namespace muster::transforms
