// Augmentations that choose among many operations: AutoAugment (Cubuk et al., 2018), RandAugment (Cubuk et
// al., 2019) and TrivialAugment Wide (Müller, Hutter, 2021), as in torchvision. Part of
// muster/vision/transforms.h, which describes what all transforms share. The images must have one or three
// channels.
#pragma once

#include <ATen/core/Tensor.h>
#include <muster/vision/transforms_geometry.h>
#include <optional>

namespace muster::transforms {

enum class AutoAugmentPolicy { kImageNet, kCifar10, kSvhn };

struct AutoAugmentOptions {
  AutoAugmentPolicy policy = AutoAugmentPolicy::kImageNet;
  InterpolationMode interpolation = InterpolationMode::kNearest;
  std::optional<Fill> fill = std::nullopt;  // empty: 0
};
class AutoAugment {
 public:
  explicit AutoAugment(AutoAugmentOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  AutoAugmentOptions options_;
};

struct RandAugmentOptions {
  int num_ops = 2;              // operations in sequence
  int magnitude = 9;            // of each operation
  int num_magnitude_bins = 31;  // number of steps in the range of magnitudes
  InterpolationMode interpolation = InterpolationMode::kNearest;
  std::optional<Fill> fill = std::nullopt;
};
class RandAugment {
 public:
  explicit RandAugment(RandAugmentOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  RandAugmentOptions options_;
};

struct TrivialAugmentWideOptions {
  int num_magnitude_bins = 31;
  InterpolationMode interpolation = InterpolationMode::kNearest;
  std::optional<Fill> fill = std::nullopt;
};
class TrivialAugmentWide {
 public:
  explicit TrivialAugmentWide(TrivialAugmentWideOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  TrivialAugmentWideOptions options_;
};

}  // namespace muster::transforms
