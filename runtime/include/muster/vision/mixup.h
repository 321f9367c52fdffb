// MixUp (Zhang et al., 2017) and CutMix (Yun et al., 2019), as in torchvision. Both mix each image of a batch
// with the previous image, and their labels likewise.
//
//   const muster::transforms::MixUp mix({.num_classes = 10});
//   muster::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true, .num_workers = 4}, job,
//                             [&](std::vector<muster::Example> samples) {
//                               return mix(muster::default_collate(samples));
//                             });
//
// Each is a function object that makes a new batch from a batch, on any device. In the input, `data` has the
// shape [batch, channels, height, width]; for MixUp it must be floating-point. `target` is int64 [batch] or
// [batch, classes]. In the output, `target` is floating-point [batch, classes]. The objects draw from
// sample_random(). In a collate_fn, the same batch gives the same result with any worker and after a restart.
// In the training loop, where no sample is being read, the result is the same only without workers. If a
// batch does not fit, they throw std::invalid_argument, which says why. They can be called from any thread.
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

// Pastes a rectangle of the previous image into each image. Mixes the labels in the ratio of the rectangle's
// area.
class CutMix {
 public:
  explicit CutMix(MixUpOptions options = {});
  Batch operator()(const Batch& batch) const;

 private:
  MixUpOptions options_;
};

}  // namespace muster::transforms
