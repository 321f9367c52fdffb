// MixUp (Zhang et al., 2017) and CutMix (Yun et al., 2019): each image of a batch is mixed with the one
// before it, and so are the labels, as torchvision has it.
//
//   const muster::transforms::MixUp mix({.num_classes = 10});
//   muster::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true, .num_workers = 4}, job,
//                             [&](std::vector<muster::Example> samples) {
//                               return mix(muster::default_collate(samples));
//                             });
//
// Function objects from a batch, data [batch, channels, height, width] (of MixUp floating) and target [batch]
// of int64 or [batch, classes], to another, with target [batch, classes], floating; on any device. They draw
// from sample_random(): in a collate_fn the same batch comes out whoever loads it, after a restart too; in
// the training loop, where no sample is read, only where there are no workers. std::invalid_argument says
// what does not fit. Safe from any thread.
#pragma once

#include <cstdint>
#include <muster/data/dataset.h>

namespace muster::transforms {

struct MixUpOptions {
  double alpha = 1;              // shares come from Beta(alpha, alpha)
  std::int64_t num_classes = 0;  // may be left out if targets are [batch, classes]
};
class MixUp {
 public:
  explicit MixUp(MixUpOptions options = {});
  Batch operator()(const Batch& batch) const;

 private:
  MixUpOptions options_;
};

// A rectangle of the image before is pasted, and labels are mixed by its area.
class CutMix {
 public:
  explicit CutMix(MixUpOptions options = {});
  Batch operator()(const Batch& batch) const;

 private:
  MixUpOptions options_;
};

}  // namespace muster::transforms
