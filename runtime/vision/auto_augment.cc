#include <cmath>
#include <muster/data/sample_random.h>
#include <muster/vision/transforms.h>
#include <numbers>
#include <torch/torch.h>

#include "runtime/vision/augmentations.h"
#include "runtime/vision/image_argument.h"

namespace muster::transforms {

namespace {

constexpr int kPolicyBins = 10;

constexpr std::array<SubPolicy, 25> kImageNetPolicy{{
    {{{Augmentation::kPosterize, 0.4, 8}, {Augmentation::kRotate, 0.6, 9}}},
    {{{Augmentation::kSolarize, 0.6, 5}, {Augmentation::kAutoContrast, 0.6, -1}}},
    {{{Augmentation::kEqualize, 0.8, -1}, {Augmentation::kEqualize, 0.6, -1}}},
    {{{Augmentation::kPosterize, 0.6, 7}, {Augmentation::kPosterize, 0.6, 6}}},
    {{{Augmentation::kEqualize, 0.4, -1}, {Augmentation::kSolarize, 0.2, 4}}},
    {{{Augmentation::kEqualize, 0.4, -1}, {Augmentation::kRotate, 0.8, 8}}},
    {{{Augmentation::kSolarize, 0.6, 3}, {Augmentation::kEqualize, 0.6, -1}}},
    {{{Augmentation::kPosterize, 0.8, 5}, {Augmentation::kEqualize, 1.0, -1}}},
    {{{Augmentation::kRotate, 0.2, 3}, {Augmentation::kSolarize, 0.6, 8}}},
    {{{Augmentation::kEqualize, 0.6, -1}, {Augmentation::kPosterize, 0.4, 6}}},
    {{{Augmentation::kRotate, 0.8, 8}, {Augmentation::kColor, 0.4, 0}}},
    {{{Augmentation::kRotate, 0.4, 9}, {Augmentation::kEqualize, 0.6, -1}}},
    {{{Augmentation::kEqualize, 0.0, -1}, {Augmentation::kEqualize, 0.8, -1}}},
    {{{Augmentation::kInvert, 0.6, -1}, {Augmentation::kEqualize, 1.0, -1}}},
    {{{Augmentation::kColor, 0.6, 4}, {Augmentation::kContrast, 1.0, 8}}},
    {{{Augmentation::kRotate, 0.8, 8}, {Augmentation::kColor, 1.0, 2}}},
    {{{Augmentation::kColor, 0.8, 8}, {Augmentation::kSolarize, 0.8, 7}}},
    {{{Augmentation::kSharpness, 0.4, 7}, {Augmentation::kInvert, 0.6, -1}}},
    {{{Augmentation::kShearX, 0.6, 5}, {Augmentation::kEqualize, 1.0, -1}}},
    {{{Augmentation::kColor, 0.4, 0}, {Augmentation::kEqualize, 0.6, -1}}},
    {{{Augmentation::kEqualize, 0.4, -1}, {Augmentation::kSolarize, 0.2, 4}}},
    {{{Augmentation::kSolarize, 0.6, 5}, {Augmentation::kAutoContrast, 0.6, -1}}},
    {{{Augmentation::kInvert, 0.6, -1}, {Augmentation::kEqualize, 1.0, -1}}},
    {{{Augmentation::kColor, 0.6, 4}, {Augmentation::kContrast, 1.0, 8}}},
    {{{Augmentation::kEqualize, 0.8, -1}, {Augmentation::kEqualize, 0.6, -1}}},
}};

constexpr std::array<SubPolicy, 25> kCifar10Policy{{
    {{{Augmentation::kInvert, 0.1, -1}, {Augmentation::kContrast, 0.2, 6}}},
    {{{Augmentation::kRotate, 0.7, 2}, {Augmentation::kTranslateX, 0.3, 9}}},
    {{{Augmentation::kSharpness, 0.8, 1}, {Augmentation::kSharpness, 0.9, 3}}},
    {{{Augmentation::kShearY, 0.5, 8}, {Augmentation::kTranslateY, 0.7, 9}}},
    {{{Augmentation::kAutoContrast, 0.5, -1}, {Augmentation::kEqualize, 0.9, -1}}},
    {{{Augmentation::kShearY, 0.2, 7}, {Augmentation::kPosterize, 0.3, 7}}},
    {{{Augmentation::kColor, 0.4, 3}, {Augmentation::kBrightness, 0.6, 7}}},
    {{{Augmentation::kSharpness, 0.3, 9}, {Augmentation::kBrightness, 0.7, 9}}},
    {{{Augmentation::kEqualize, 0.6, -1}, {Augmentation::kEqualize, 0.5, -1}}},
    {{{Augmentation::kContrast, 0.6, 7}, {Augmentation::kSharpness, 0.6, 5}}},
    {{{Augmentation::kColor, 0.7, 7}, {Augmentation::kTranslateX, 0.5, 8}}},
    {{{Augmentation::kEqualize, 0.3, -1}, {Augmentation::kAutoContrast, 0.4, -1}}},
    {{{Augmentation::kTranslateY, 0.4, 3}, {Augmentation::kSharpness, 0.2, 6}}},
    {{{Augmentation::kBrightness, 0.9, 6}, {Augmentation::kColor, 0.2, 8}}},
    {{{Augmentation::kSolarize, 0.5, 2}, {Augmentation::kInvert, 0.0, -1}}},
    {{{Augmentation::kEqualize, 0.2, -1}, {Augmentation::kAutoContrast, 0.6, -1}}},
    {{{Augmentation::kEqualize, 0.2, -1}, {Augmentation::kEqualize, 0.6, -1}}},
    {{{Augmentation::kColor, 0.9, 9}, {Augmentation::kEqualize, 0.6, -1}}},
    {{{Augmentation::kAutoContrast, 0.8, -1}, {Augmentation::kSolarize, 0.2, 8}}},
    {{{Augmentation::kBrightness, 0.1, 3}, {Augmentation::kColor, 0.7, 0}}},
    {{{Augmentation::kSolarize, 0.4, 5}, {Augmentation::kAutoContrast, 0.9, -1}}},
    {{{Augmentation::kTranslateY, 0.9, 9}, {Augmentation::kTranslateY, 0.7, 9}}},
    {{{Augmentation::kAutoContrast, 0.9, -1}, {Augmentation::kSolarize, 0.8, 3}}},
    {{{Augmentation::kEqualize, 0.8, -1}, {Augmentation::kInvert, 0.1, -1}}},
    {{{Augmentation::kTranslateY, 0.7, 9}, {Augmentation::kAutoContrast, 0.9, -1}}},
}};

constexpr std::array<SubPolicy, 25> kSvhnPolicy{{
    {{{Augmentation::kShearX, 0.9, 4}, {Augmentation::kInvert, 0.2, -1}}},
    {{{Augmentation::kShearY, 0.9, 8}, {Augmentation::kInvert, 0.7, -1}}},
    {{{Augmentation::kEqualize, 0.6, -1}, {Augmentation::kSolarize, 0.6, 6}}},
    {{{Augmentation::kInvert, 0.9, -1}, {Augmentation::kEqualize, 0.6, -1}}},
    {{{Augmentation::kEqualize, 0.6, -1}, {Augmentation::kRotate, 0.9, 3}}},
    {{{Augmentation::kShearX, 0.9, 4}, {Augmentation::kAutoContrast, 0.8, -1}}},
    {{{Augmentation::kShearY, 0.9, 8}, {Augmentation::kInvert, 0.4, -1}}},
    {{{Augmentation::kShearY, 0.9, 5}, {Augmentation::kSolarize, 0.2, 6}}},
    {{{Augmentation::kInvert, 0.9, -1}, {Augmentation::kAutoContrast, 0.8, -1}}},
    {{{Augmentation::kEqualize, 0.6, -1}, {Augmentation::kRotate, 0.9, 3}}},
    {{{Augmentation::kShearX, 0.9, 4}, {Augmentation::kSolarize, 0.3, 3}}},
    {{{Augmentation::kShearY, 0.8, 8}, {Augmentation::kInvert, 0.7, -1}}},
    {{{Augmentation::kEqualize, 0.9, -1}, {Augmentation::kTranslateY, 0.6, 6}}},
    {{{Augmentation::kInvert, 0.9, -1}, {Augmentation::kEqualize, 0.6, -1}}},
    {{{Augmentation::kContrast, 0.3, 3}, {Augmentation::kRotate, 0.8, 4}}},
    {{{Augmentation::kInvert, 0.8, -1}, {Augmentation::kTranslateY, 0.0, 2}}},
    {{{Augmentation::kShearY, 0.7, 6}, {Augmentation::kSolarize, 0.4, 8}}},
    {{{Augmentation::kInvert, 0.6, -1}, {Augmentation::kRotate, 0.8, 4}}},
    {{{Augmentation::kShearY, 0.3, 7}, {Augmentation::kTranslateX, 0.9, 3}}},
    {{{Augmentation::kShearX, 0.1, 6}, {Augmentation::kInvert, 0.6, -1}}},
    {{{Augmentation::kSolarize, 0.7, 2}, {Augmentation::kTranslateY, 0.6, 7}}},
    {{{Augmentation::kShearY, 0.8, 4}, {Augmentation::kInvert, 0.8, -1}}},
    {{{Augmentation::kShearX, 0.7, 9}, {Augmentation::kTranslateY, 0.8, 3}}},
    {{{Augmentation::kShearY, 0.8, 5}, {Augmentation::kAutoContrast, 0.7, -1}}},
    {{{Augmentation::kShearX, 0.7, 2}, {Augmentation::kInvert, 0.1, -1}}},
}};

double linspace(double first, double last, int bin, int bins) {
  return at::linspace(first, last, bins, at::kFloat)[bin].item<float>();
}

// The operation posterize() keeps some of the 8 bits of each value. Its strength is a number `bin` from 0 to
// `bins - 1`. Returns how many bits it keeps at this strength: 8 if `bin` is 0, and `8 - taken` if `bin` is
// `bins - 1`.
double bits(int bin, int bins, double taken) {
  const auto bins_of_a_bit = static_cast<float>((bins - 1) / taken);
  return std::nearbyint(8 - static_cast<float>(bin) / bins_of_a_bit);
}

double degrees_of_slope(double slope) {
  return std::atan(slope) * (180 / std::numbers::pi);
}

functional::Turn turn_of(std::string_view who, InterpolationMode interpolation,
                         const std::optional<Fill>& fill) {
  return {.who = who, .interpolation = interpolation, .fill = fill};
}

// Applies the augmentation to the image. `bin` is the index of the magnitude. If the magnitude can be
// negative, its sign is drawn at random.
at::Tensor augment_somehow(const at::Tensor& image, Augmentation augmentation, const Magnitudes& magnitudes,
                           int bin, const functional::Turn& turn) {
  const double magnitude =
      magnitude_of(augmentation, magnitudes, bin, {image.size(1), image.size(2)}).value_or(0);
  const bool other_way = is_signed(augmentation) && sample_random().chance(0.5);
  return augment(image, augmentation, other_way ? -magnitude : magnitude, turn);
}

void check_augmented(std::string_view who, const at::Tensor& image) {
  check_image(who, image);
  check_channels(who, image);
}

void check_bins(std::string_view who, int bins) {
  check_argument(bins >= 2, fmt::format("{}: num_magnitude_bins", who), bins, "at least 2");
}

Augmentation chosen() {
  return static_cast<Augmentation>(sample_random().below(kChosenAugmentations));
}

}  // namespace

bool is_signed(Augmentation augmentation) {
  return augmentation >= Augmentation::kShearX && augmentation <= Augmentation::kSharpness;
}

std::optional<double> magnitude_of(Augmentation augmentation, const Magnitudes& magnitudes, int bin,
                                   const ImageSize& size) {
  const auto [wide, bins] = magnitudes;
  const auto upto = [&](double narrow_most, double wide_most) {
    return linspace(0, wide ? wide_most : narrow_most, bin, bins);
  };
  switch (augmentation) {
    case Augmentation::kShearX:
    case Augmentation::kShearY: return upto(0.3, 0.99);
    case Augmentation::kTranslateX: return upto(150. / 331 * static_cast<double>(size.width), 32);
    case Augmentation::kTranslateY: return upto(150. / 331 * static_cast<double>(size.height), 32);
    case Augmentation::kRotate: return upto(30, 135);
    case Augmentation::kBrightness:
    case Augmentation::kColor:
    case Augmentation::kContrast:
    case Augmentation::kSharpness: return upto(0.9, 0.99);
    case Augmentation::kPosterize: return bits(bin, bins, wide ? 6 : 4);
    case Augmentation::kSolarize: return linspace(1, 0, bin, bins);
    default: return std::nullopt;
  }
}

at::Tensor augment(const at::Tensor& image, Augmentation augmentation, double magnitude,
                   const functional::Turn& turn) {
  functional::Turn about_corner = turn;
  about_corner.center = Point{0, 0};
  switch (augmentation) {
    case Augmentation::kIdentity: break;
    case Augmentation::kShearX:
      return functional::affine(image, {.shear = {degrees_of_slope(magnitude), 0}}, about_corner);
    case Augmentation::kShearY:
      return functional::affine(image, {.shear = {0, degrees_of_slope(magnitude)}}, about_corner);
    case Augmentation::kTranslateX:
      return functional::affine(image, {.translate = {std::trunc(magnitude), 0}}, turn);
    case Augmentation::kTranslateY:
      return functional::affine(image, {.translate = {0, std::trunc(magnitude)}}, turn);
    case Augmentation::kRotate: return functional::rotate(image, magnitude, turn);
    case Augmentation::kBrightness: return functional::adjust_brightness(image, 1 + magnitude);
    case Augmentation::kColor: return functional::adjust_saturation(image, 1 + magnitude);
    case Augmentation::kContrast: return functional::adjust_contrast(image, 1 + magnitude);
    case Augmentation::kSharpness: return functional::adjust_sharpness(image, 1 + magnitude);
    case Augmentation::kPosterize: return functional::posterize(image, static_cast<int>(magnitude));
    case Augmentation::kSolarize:
      return functional::solarize(image, functional::largest_value(image) * magnitude);
    case Augmentation::kAutoContrast: return functional::autocontrast(image);
    case Augmentation::kEqualize: return functional::equalize(image);
    case Augmentation::kInvert: return functional::invert(image);
  }
  return image;
}

std::span<const SubPolicy> policy_of(AutoAugmentPolicy policy) {
  switch (policy) {
    case AutoAugmentPolicy::kImageNet: return kImageNetPolicy;
    case AutoAugmentPolicy::kCifar10: return kCifar10Policy;
    case AutoAugmentPolicy::kSvhn: break;
  }
  return kSvhnPolicy;
}

AutoAugment::AutoAugment(AutoAugmentOptions options) : options_(std::move(options)) {
  check_turn("AutoAugment", options_.interpolation);
}

at::Tensor AutoAugment::operator()(const at::Tensor& image) const {
  check_augmented("AutoAugment", image);
  const std::span<const SubPolicy> policy = policy_of(options_.policy);
  at::Tensor result = image;
  for (const PolicyStep& step : policy[static_cast<std::size_t>(sample_random().below(std::ssize(policy)))]) {
    if (!sample_random().chance(step.probability)) continue;
    result = augment_somehow(result, step.augmentation, {.wide = false, .bins = kPolicyBins}, step.magnitude,
                             turn_of("AutoAugment", options_.interpolation, options_.fill));
  }
  return result;
}

RandAugment::RandAugment(RandAugmentOptions options) : options_(std::move(options)) {
  check_argument(options_.num_ops >= 0, "RandAugment: num_ops", options_.num_ops, "at least 0");
  check_bins("RandAugment", options_.num_magnitude_bins);
  check_argument(options_.magnitude >= 0 && options_.magnitude < options_.num_magnitude_bins,
                 "RandAugment: magnitude", options_.magnitude,
                 fmt::format("from 0 to {}, one of the bins", options_.num_magnitude_bins - 1));
  check_turn("RandAugment", options_.interpolation);
}

at::Tensor RandAugment::operator()(const at::Tensor& image) const {
  check_augmented("RandAugment", image);
  at::Tensor result = image;
  for (int i = 0; i < options_.num_ops; ++i)
    result =
        augment_somehow(result, chosen(), {.wide = false, .bins = options_.num_magnitude_bins},
                        options_.magnitude, turn_of("RandAugment", options_.interpolation, options_.fill));
  return result;
}

TrivialAugmentWide::TrivialAugmentWide(TrivialAugmentWideOptions options) : options_(std::move(options)) {
  check_bins("TrivialAugmentWide", options_.num_magnitude_bins);
  check_turn("TrivialAugmentWide", options_.interpolation);
}

at::Tensor TrivialAugmentWide::operator()(const at::Tensor& image) const {
  check_augmented("TrivialAugmentWide", image);
  const int bins = options_.num_magnitude_bins;
  const Augmentation augmentation = chosen();
  const auto bin = static_cast<int>(sample_random().below(bins));
  return augment_somehow(image, augmentation, {.wide = true, .bins = bins}, bin,
                         turn_of("TrivialAugmentWide", options_.interpolation, options_.fill));
}

}  // namespace muster::transforms
