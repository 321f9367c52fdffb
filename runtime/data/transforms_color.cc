#include <algorithm>
#include <array>
#include <cmath>
#include <muster/sample_random.h>
#include <muster/transforms.h>
#include <torch/torch.h>

#include "runtime/data/functional.h"
#include "runtime/data/image_argument.h"

namespace muster::transforms {

namespace {

// Each of 256 values, for a conversion that reads pixels side by side and writes channels apart.
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
    refuse("Normalize",
           "a floating image is needed, and not one of uint8: put ToDtype(at::kFloat, {.scale = true}) "
           "before it");
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

ColorJitter::ColorJitter(ColorJitterOptions options) : options_(options) {
  check_argument(options_.brightness >= 0, "ColorJitter: brightness", options_.brightness, "at least 0");
  check_argument(options_.contrast >= 0, "ColorJitter: contrast", options_.contrast, "at least 0");
  check_argument(options_.saturation >= 0, "ColorJitter: saturation", options_.saturation, "at least 0");
  check_argument(options_.hue >= 0 && options_.hue <= 0.5, "ColorJitter: hue", options_.hue, "from 0 to 0.5");
}

at::Tensor ColorJitter::operator()(const at::Tensor& image) const {
  check_image("ColorJitter", image);
  check_channels("ColorJitter", image);
  SampleRandom& random = sample_random();
  const auto factor = [&](double spread) { return random.uniform(std::max(0., 1 - spread), 1 + spread); };
  struct Change {
    at::Tensor (*apply)(const at::Tensor&, double);
    double amount;
    bool wanted;
  };
  std::array changes{
      Change{functional::adjust_brightness, factor(options_.brightness), options_.brightness > 0},
      Change{functional::adjust_contrast, factor(options_.contrast), options_.contrast > 0},
      Change{functional::adjust_saturation, factor(options_.saturation), options_.saturation > 0},
      Change{functional::adjust_hue, random.uniform(-options_.hue, options_.hue), options_.hue > 0},
  };
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
