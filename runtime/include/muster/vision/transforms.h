// Augmentations of images, with torchvision.transforms' names, arguments and distributions.
//
//   const transforms::Compose train({transforms::RandomResizedCrop(224), transforms::RandomHorizontalFlip(),
//                                    transforms::ToDtype(at::kFloat, {.scale = true}),
//                                    transforms::Normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225})});
//   const auto dataset = muster::transformed(images, train);
//
// A transform is a function object that makes a new image from an image, and leaves its input unchanged. An
// image is a tensor [channels, height, width] on the CPU, of uint8 or a floating-point type. Transforms draw
// from sample_random(). So the same seed, epoch and place in the order give the same image with any worker.
// If an image does not fit, transforms throw std::invalid_argument, which says why. They can be called from
// any thread.
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

// Applies all of the transforms, or none.
class RandomApply {
 public:
  explicit RandomApply(std::vector<Compose::Step> transforms, double p = 0.5);
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  Compose all_;
  double p_;
};

// Applies one of the transforms, which it chooses at random. `p` has the relative probability of each
// transform; the numbers need not sum to 1. If `p` is empty, all transforms are equally likely.
class RandomChoice {
 public:
  explicit RandomChoice(std::vector<Compose::Step> transforms, std::vector<double> p = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  std::vector<Compose::Step> transforms_;
  std::vector<double> ends_;  // upper ends of each transform's interval in [0, last end)
};

}  // namespace muster::transforms
