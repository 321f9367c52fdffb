// Augmentations of images, with torchvision.transforms' names, arguments and distributions.
//
//   const transforms::Compose train({transforms::RandomResizedCrop(224), transforms::RandomHorizontalFlip(),
//                                    transforms::ToDtype(at::kFloat, {.scale = true}),
//                                    transforms::Normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225})});
//   const auto dataset = muster::transformed(images, train);
//
// Function objects from an image on the CPU, [channels, height, width], uint8 or floating, to another; what
// they are given they leave as it is. They draw from sample_random(): the same image comes out for the same
// seed, epoch and place in the order, whoever loads it. std::invalid_argument says what does not fit. Safe
// from any thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <functional>
#include <muster/data/transformed.h>
#include <muster/vision/auto_augment.h>
#include <muster/vision/transforms_color.h>
#include <muster/vision/transforms_geometry.h>
#include <vector>

namespace muster::transforms {

class Compose {
 public:
  using Step = std::function<at::Tensor(const at::Tensor&)>;
  explicit Compose(std::vector<Step> steps) : steps_(std::move(steps)) {}
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  std::vector<Step> steps_;
};

// All of them, or none.
class RandomApply {
 public:
  explicit RandomApply(std::vector<Compose::Step> transforms, double p = 0.5);
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  Compose all_;
  double p_;
};

// One of them. `p` is how likely each is, and need not sum up to 1; empty: all alike.
class RandomChoice {
 public:
  explicit RandomChoice(std::vector<Compose::Step> transforms, std::vector<double> p = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  std::vector<Compose::Step> transforms_;
  std::vector<double> ends_;  // of each one's part of 0 .. the last
};

}  // namespace muster::transforms
