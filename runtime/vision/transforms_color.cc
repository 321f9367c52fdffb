#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <muster/data/sample_random.h>
#include <muster/vision/transforms.h>
#include <torch/torch.h>

#include "runtime/vision/functional.h"
#include "runtime/vision/image_argument.h"

namespace muster::transforms {

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// Replaces each byte of the image by the number that `value_of` has for it. In `image`, the channels of a
// pixel can be next to each other. In the result, each channel is a separate part of the memory.
at::Tensor looked_up(const at::Tensor& image, const std::array<float, 256>& value_of) {
  at::Tensor result = at::empty(image.sizes(), at::kFloat);
  auto* to = result.mutable_data_ptr<float>();
  const auto* from = static_cast<const std::uint8_t*>(image.const_data_ptr());
  const std::int64_t column = image.stride(2);
  for (std::int64_t channel = 0; channel < image.size(0); ++channel)
    for (std::int64_t y = 0; y < image.size(1); ++y) {
      const std::uint8_t* row = from + channel * image.stride(0) + y * image.stride(1);
      for (std::int64_t x = 0; x < image.size(2); ++x) *to++ = value_of[row[x * column]];
    }
  return result;
}

std::array<float, 256> values_of_bytes(float divisor) {
  std::array<float, 256> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / divisor;
  return values;
}

at::Tensor column_of(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble).view({-1, 1, 1});
}

}  // namespace

ToDtype::ToDtype(at::ScalarType type, ToDtypeOptions options) : type_(type), scale_(options.scale) {
  const bool usable = type == at::kByte || at::isFloatingType(type);
  check_argument(usable, "ToDtype: type", c10::toString(type), "uint8 or floating");
}

at::Tensor ToDtype::operator()(const at::Tensor& image) const {
  static const std::array<float, 256> kScaled = values_of_bytes(255), kPlain = values_of_bytes(1);
  check_image("ToDtype", image);
  if (image.scalar_type() == type_) return image;
  if (image.scalar_type() == at::kByte) {
    const at::Tensor values = looked_up(image, scale_ ? kScaled : kPlain);
    return type_ == at::kFloat ? values : values.to(type_);
  }
  if (type_ == at::kByte && scale_) return functional::bytes_of(image);
  return image.to(type_);
}

Normalize::Normalize(std::vector<double> mean, std::vector<double> std)
    : mean_(column_of(mean)), std_(column_of(std)) {
  check_argument(!mean.empty(), "Normalize: the number of means", mean.size(), "at least 1");
  check_argument(std.size() == mean.size(), "Normalize: the number of stds", std.size(),
                 fmt::format("that of the means, {}", mean.size()));
  for (const double value : std) check_argument(value > 0, "Normalize: std", value, "above 0");
}

at::Tensor Normalize::operator()(const at::Tensor& image) const {
  check_image("Normalize", image);
  if (!image.is_floating_point())
    refuse(
        "Normalize",
        "an image must be floating, and this one is uint8: put ToDtype(at::kFloat, {.scale = true}) before it");
  if (mean_.size(0) != 1 && mean_.size(0) != image.size(0))
    refuse("Normalize",
           fmt::format("{} means do not fit an image of {} channels", mean_.size(0), image.size(0)));
  return image.sub(mean_.to(image.scalar_type())).div_(std_.to(image.scalar_type()));
}

Grayscale::Grayscale(std::int64_t num_output_channels) : channels_(num_output_channels) {
  check_argument(channels_ == 1 || channels_ == 3, "Grayscale: num_output_channels", channels_, "1 or 3");
}

at::Tensor Grayscale::operator()(const at::Tensor& image) const {
  check_image("Grayscale", image);
  check_channels("Grayscale", image);
  return functional::gray(image).expand({channels_, image.size(1), image.size(2)});
}

ColorJitter::Factors ColorJitter::factors(const char* name, const Jitter& jitter, double center,
                                          Range bounds) {
  const std::string argument = std::string("ColorJitter: ") + name;
  if (!jitter.range) {
    const bool is_bounded = std::isfinite(bounds.high);
    check_argument(jitter.spread >= 0 && (!is_bounded || jitter.spread <= bounds.high), argument,
                   jitter.spread, is_bounded ? fmt::format("from 0 to {}", bounds.high) : "at least 0");
    return {name, {std::max(center - jitter.spread, bounds.low), center + jitter.spread}, jitter.spread > 0};
  }
  const Range& range = *jitter.range;
  check_argument(range.low >= bounds.low && range.low <= range.high && range.high <= bounds.high, argument,
                 fmt::format("{{{}, {}}}", range.low, range.high),
                 std::isfinite(bounds.high)
                     ? fmt::format("from {} to {}, the smaller one first", bounds.low, bounds.high)
                     : fmt::format("at least {}, the smaller one first", bounds.low));
  return {name, range, range.low != center || range.high != center};
}

ColorJitter::ColorJitter(ColorJitterOptions options)
    : factors_({factors("brightness", options.brightness, 1, {0, kUnbounded}),
                factors("contrast", options.contrast, 1, {0, kUnbounded}),
                factors("saturation", options.saturation, 1, {0, kUnbounded}),
                factors("hue", options.hue, 0, {-0.5, 0.5})}) {}

at::Tensor ColorJitter::operator()(const at::Tensor& image) const {
  check_image("ColorJitter", image);
  check_channels("ColorJitter", image);
  SampleRandom& random = sample_random();
  struct Change {
    at::Tensor (*apply)(const at::Tensor&, double);
    double amount;
    bool wanted;
  };
  std::array changes{
      Change{functional::adjust_brightness, 0, false}, Change{functional::adjust_contrast, 0, false},
      Change{functional::adjust_saturation, 0, false}, Change{functional::adjust_hue, 0, false}};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    changes[i].amount = random.uniform(factors_[i].range.low, factors_[i].range.high);
    changes[i].wanted = factors_[i].wanted;
  }
  for (std::size_t left = changes.size(); left > 1; --left)
    std::swap(changes[left - 1],
              changes[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(left)))]);
  at::Tensor result = image;
  for (const Change& change : changes)
    if (change.wanted) result = change.apply(result, change.amount);
  return result;
}

GaussianBlur::GaussianBlur(KernelSize kernel_size, Range sigma) : kernel_size_(kernel_size), sigma_(sigma) {
  for (const std::int64_t side : {kernel_size_.width, kernel_size_.height})
    check_argument(side >= 1 && side % 2 == 1, "GaussianBlur: kernel_size", side, "odd and at least 1");
  check_range("GaussianBlur: sigma", sigma_);
}

at::Tensor GaussianBlur::operator()(const at::Tensor& image) const {
  check_image("GaussianBlur", image);
  return functional::gaussian_blur(image, kernel_size_, sample_random().uniform(sigma_.low, sigma_.high));
}

}  // namespace muster::transforms
