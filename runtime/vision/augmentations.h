// torchvision's tables for AutoAugment, RandAugment and TrivialAugmentWide: the augmentations, their
// magnitudes, and AutoAugment's policies.
//
// Any thread can call the functions.
#pragma once

#include <ATen/core/Tensor.h>
#include <array>
#include <muster/vision/auto_augment.h>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/vision/functional.h"

namespace muster::transforms {

// The augmentations in torchvision's order. RandAugment and TrivialAugmentWide choose among all
// except the last.
enum class Augmentation {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
  kInvert,
};
constexpr std::array<std::string_view, 15> kAugmentationNames{
    "Identity", "ShearX",    "ShearY",    "TranslateX", "TranslateY",   "Rotate",   "Brightness", "Color",
    "Contrast", "Sharpness", "Posterize", "Solarize",   "AutoContrast", "Equalize", "Invert"};
constexpr std::int64_t kChosenAugmentations = 14;

struct Magnitudes {
  bool wide;  // true: the wider ranges of TrivialAugmentWide
  int bins;
};
// An augmentation has several magnitudes, and `bin` is the index of one. Returns this magnitude for an image
// of this size. Returns nothing if the augmentation has no magnitude.
std::optional<double> magnitude_of(Augmentation augmentation, const Magnitudes& magnitudes, int bin,
                                   const ImageSize& size);
// Returns true if the augmentation's magnitude can also be negative.
bool is_signed(Augmentation augmentation);

at::Tensor augment(const at::Tensor& image, Augmentation augmentation, double magnitude,
                   const functional::Turn& turn);

struct PolicyStep {
  Augmentation augmentation;
  double probability;
  int magnitude;  // bin, 0 to 9; -1 if the augmentation has no magnitude
};
using SubPolicy = std::array<PolicyStep, 2>;
std::span<const SubPolicy> policy_of(AutoAugmentPolicy policy);

}  // namespace muster::transforms
