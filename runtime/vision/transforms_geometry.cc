#include <ATen/CPUGeneratorImpl.h>
#include <algorithm>
#include <cmath>
#include <muster/data/sample_random.h>
#include <muster/vision/transforms.h>
#include <optional>
#include <torch/torch.h>
#include <utility>

#include "runtime/data/loader/one_compute_thread.h"
#include "runtime/vision/functional.h"
#include "runtime/vision/image_argument.h"

namespace muster::transforms {

namespace {

constexpr int kAttempts = 10;  // how often to draw a rectangle until one fits, as in torchvision

struct Box {
  std::int64_t top, left, height, width;
};

// Rounds to the nearest integer. A value in the middle between two integers is rounded to the even one, as in
// Python's round().
std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value));
}

at::Tensor part(const at::Tensor& image, const Box& box) {
  return image.narrow(1, box.top, box.height).narrow(2, box.left, box.width);
}

Box random_place(const at::Tensor& image, std::int64_t height, std::int64_t width) {
  SampleRandom& random = sample_random();
  const std::int64_t top = random.below(image.size(1) - height + 1);
  return {.top = top, .left = random.below(image.size(2) - width + 1), .height = height, .width = width};
}

void check_size(std::string_view who, const ImageSize& size) {
  const auto least = std::min(size.height, size.width);
  check_argument(least >= 1, fmt::format("{}: size", who), least, "at least 1");
}

void check_padding(std::string_view argument, const Padding& padding) {
  const auto least = std::min({padding.left, padding.top, padding.right, padding.bottom});
  check_argument(least >= 0, argument, least, "at least 0");
}

void check_degrees(std::string_view argument, const Degrees& degrees) {
  check_argument(degrees.low <= degrees.high, argument, fmt::format("{{{}, {}}}", degrees.low, degrees.high),
                 "a number of at least 0, or two numbers, the smaller one first");
}

// random_sides() draws the two sides of a rectangle at random. The area of the rectangle, divided by the area
// of the image, is in the range `scale`. `first / second` is in the range `ratio`.
struct Sides {
  double first, second;
};
Sides random_sides(const at::Tensor& image, const Range& scale, const Range& ratio) {
  SampleRandom& random = sample_random();
  const double area =
      static_cast<double>(image.size(1) * image.size(2)) * random.uniform(scale.low, scale.high);
  const double aspect = std::exp(random.uniform(std::log(ratio.low), std::log(ratio.high)));
  return {.first = std::sqrt(area * aspect), .second = std::sqrt(area / aspect)};
}

Box random_box(const at::Tensor& image, const RandomResizedCropOptions& options) {
  const std::int64_t height = image.size(1), width = image.size(2);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Sides sides = random_sides(image, options.scale, options.ratio);
    const std::int64_t box_width = rounded(sides.first), box_height = rounded(sides.second);
    if (box_width > 0 && box_width <= width && box_height > 0 && box_height <= height)
      return random_place(image, box_height, box_width);
  }
  // If none of the boxes fits, takes the largest box in the center whose ratio is allowed.
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  Box box{.top = 0, .left = 0, .height = height, .width = width};
  if (ratio < options.ratio.low) box.height = rounded(static_cast<double>(width) / options.ratio.low);
  if (ratio > options.ratio.high) box.width = rounded(static_cast<double>(height) * options.ratio.high);
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

}  // namespace

std::string_view name_of(InterpolationMode mode) {
  switch (mode) {
    case InterpolationMode::kNearest: return "kNearest";
    case InterpolationMode::kNearestExact: return "kNearestExact";
    case InterpolationMode::kBilinear: return "kBilinear";
    case InterpolationMode::kBicubic: break;
  }
  return "kBicubic";
}

void check_turn(std::string_view who, InterpolationMode mode) {
  check_argument(mode == InterpolationMode::kNearest || mode == InterpolationMode::kBilinear,
                 fmt::format("{}: interpolation", who), name_of(mode), "kNearest or kBilinear");
}

void check_range(std::string_view argument, const Range& range) {
  check_argument(range.low > 0 && range.low <= range.high, argument,
                 fmt::format("{{{}, {}}}", range.low, range.high), "above 0, the smaller one first");
}

at::Tensor Compose::operator()(const at::Tensor& image) const {
  // Uses one thread: with two, an image of 224 x 224 pixels took 2.7 times the CPU time.
  const OneComputeThread one_thread;
  at::Tensor result = image;
  for (const Step& step : steps_) result = step(result);
  return result;
}

RandomApply::RandomApply(std::vector<Compose::Step> transforms, double p) : all_(transforms), p_(p) {
  check_argument(!transforms.empty(), "RandomApply: the number of transforms", transforms.size(),
                 "at least 1");
  check_probability("RandomApply: p", p_);
}

at::Tensor RandomApply::operator()(const at::Tensor& image) const {
  return sample_random().chance(p_) ? all_(image) : image;
}

RandomChoice::RandomChoice(std::vector<Compose::Step> transforms, std::vector<double> p)
    : transforms_(std::move(transforms)) {
  check_argument(!transforms_.empty(), "RandomChoice: the number of transforms", transforms_.size(),
                 "at least 1");
  if (p.empty()) p.assign(transforms_.size(), 1);
  check_argument(p.size() == transforms_.size(), "RandomChoice: the number of p", p.size(),
                 fmt::format("that of the transforms, {}", transforms_.size()));
  for (const double weight : p) {
    check_argument(weight >= 0 && std::isfinite(weight), "RandomChoice: p", weight, "at least 0");
    ends_.push_back(weight + (ends_.empty() ? 0 : ends_.back()));
  }
  check_argument(ends_.back() > 0, "RandomChoice: the sum of p", ends_.back(), "above 0");
}

at::Tensor RandomChoice::operator()(const at::Tensor& image) const {
  const double place = sample_random().uniform(0, ends_.back());
  const auto chosen = std::ranges::upper_bound(ends_, place) - ends_.begin();
  return transforms_[static_cast<std::size_t>(chosen)](image);
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(p) {
  check_probability("RandomHorizontalFlip: p", p);
}

at::Tensor RandomHorizontalFlip::operator()(const at::Tensor& image) const {
  check_image("RandomHorizontalFlip", image);
  return sample_random().chance(p_) ? image.flip(2) : image;
}

RandomVerticalFlip::RandomVerticalFlip(double p) : p_(p) {
  check_probability("RandomVerticalFlip: p", p);
}

at::Tensor RandomVerticalFlip::operator()(const at::Tensor& image) const {
  check_image("RandomVerticalFlip", image);
  return sample_random().chance(p_) ? image.flip(1) : image;
}

Pad::Pad(Padding padding, PadOptions options) : padding_(padding), options_(std::move(options)) {
  check_padding("Pad: padding", padding_);
}

at::Tensor Pad::operator()(const at::Tensor& image) const {
  check_image("Pad", image);
  return functional::pad("Pad", image, padding_, options_);
}

RandomCrop::RandomCrop(ImageSize size, RandomCropOptions options) : size_(size), options_(options) {
  check_size("RandomCrop", size_);
  check_padding("RandomCrop: padding", options_.padding);
}

at::Tensor RandomCrop::operator()(const at::Tensor& image) const {
  check_image("RandomCrop", image);
  Padding padding = options_.padding;
  if (options_.pad_if_needed) {
    // If pixels are missing, adds that number of pixels on both sides, as torchvision does.
    const auto down = size_.height - image.size(1) - padding.top - padding.bottom;
    const auto across = size_.width - image.size(2) - padding.left - padding.right;
    padding.top += std::max<std::int64_t>(0, down);
    padding.bottom += std::max<std::int64_t>(0, down);
    padding.left += std::max<std::int64_t>(0, across);
    padding.right += std::max<std::int64_t>(0, across);
  }
  const bool pads = padding.left > 0 || padding.top > 0 || padding.right > 0 || padding.bottom > 0;
  const at::Tensor padded =
      pads ? functional::pad("RandomCrop", image, padding, {options_.fill, options_.padding_mode}) : image;
  if (padded.size(1) < size_.height || padded.size(2) < size_.width)
    refuse("RandomCrop", fmt::format("a crop of {} x {} does not fit into an image of height {} and width {}",
                                     size_.height, size_.width, padded.size(1), padded.size(2)));
  return part(padded, random_place(padded, size_.height, size_.width));
}

CenterCrop::CenterCrop(ImageSize size) : size_(size) {
  check_size("CenterCrop", size_);
}

at::Tensor CenterCrop::operator()(const at::Tensor& image) const {
  check_image("CenterCrop", image);
  const std::int64_t down = std::max<std::int64_t>(0, size_.height - image.size(1));
  const std::int64_t across = std::max<std::int64_t>(0, size_.width - image.size(2));
  const at::Tensor padded =
      down > 0 || across > 0
          ? at::constant_pad_nd(image, {across / 2, (across + 1) / 2, down / 2, (down + 1) / 2})
          : image;
  return part(padded, {.top = rounded(static_cast<double>(padded.size(1) - size_.height) / 2),
                       .left = rounded(static_cast<double>(padded.size(2) - size_.width) / 2),
                       .height = size_.height,
                       .width = size_.width});
}

Resize::Resize(std::int64_t shorter_side, ResizeOptions options)
    : size_(shorter_side), keep_ratio_(true), options_(options) {
  check_size("Resize", size_);
  check_argument(options_.max_size == 0 || options_.max_size > shorter_side, "Resize: max_size",
                 options_.max_size, fmt::format("above the shorter side, {}, or 0 for any", shorter_side));
}

Resize::Resize(ImageSize size, ResizeOptions options) : size_(size), keep_ratio_(false), options_(options) {
  check_size("Resize", size_);
  check_argument(options_.max_size == 0, "Resize: max_size", options_.max_size,
                 "0 where both sides are given");
}

at::Tensor Resize::operator()(const at::Tensor& image) const {
  check_image("Resize", image);
  const std::int64_t height = image.size(1), width = image.size(2);
  if (!keep_ratio_) return functional::resize(image, size_, options_);
  std::int64_t shorter = size_.height;
  std::int64_t longer = shorter * std::max(height, width) / std::min(height, width);
  if (options_.max_size > 0 && longer > options_.max_size) {
    shorter = std::max<std::int64_t>(options_.max_size * shorter / longer, 1);
    longer = options_.max_size;
  }
  return functional::resize(image, width <= height ? ImageSize(longer, shorter) : ImageSize(shorter, longer),
                            options_);
}

RandomResizedCrop::RandomResizedCrop(ImageSize size, RandomResizedCropOptions options)
    : size_(size), options_(options) {
  check_size("RandomResizedCrop", size_);
  check_range("RandomResizedCrop: scale", options_.scale);
  check_range("RandomResizedCrop: ratio", options_.ratio);
}

at::Tensor RandomResizedCrop::operator()(const at::Tensor& image) const {
  check_image("RandomResizedCrop", image);
  return functional::resize(part(image, random_box(image, options_)), size_,
                            {options_.interpolation, options_.antialias});
}

RandomRotation::RandomRotation(Degrees degrees, RandomRotationOptions options)
    : degrees_(degrees), options_(std::move(options)) {
  check_degrees("RandomRotation: degrees", degrees_);
  check_turn("RandomRotation", options_.interpolation);
}

at::Tensor RandomRotation::operator()(const at::Tensor& image) const {
  check_image("RandomRotation", image);
  return functional::rotate(image, sample_random().uniform(degrees_.low, degrees_.high),
                            {.who = "RandomRotation",
                             .interpolation = options_.interpolation,
                             .fill = options_.fill,
                             .center = options_.center,
                             .expand = options_.expand});
}

RandomAffine::RandomAffine(Degrees degrees, RandomAffineOptions options)
    : degrees_(degrees), options_(std::move(options)) {
  check_degrees("RandomAffine: degrees", degrees_);
  check_probability("RandomAffine: translate.horizontal", options_.translate.horizontal);
  check_probability("RandomAffine: translate.vertical", options_.translate.vertical);
  check_range("RandomAffine: scale", options_.scale);
  check_degrees("RandomAffine: shear", options_.shear.x);
  check_degrees("RandomAffine: shear", options_.shear.y);
  check_turn("RandomAffine", options_.interpolation);
}

at::Tensor RandomAffine::operator()(const at::Tensor& image) const {
  check_image("RandomAffine", image);
  SampleRandom& random = sample_random();
  functional::Affine affine{.angle = random.uniform(degrees_.low, degrees_.high)};
  const double across = options_.translate.horizontal * static_cast<double>(image.size(2));
  const double down = options_.translate.vertical * static_cast<double>(image.size(1));
  affine.translate.x = static_cast<double>(rounded(random.uniform(-across, across)));
  affine.translate.y = static_cast<double>(rounded(random.uniform(-down, down)));
  affine.scale = random.uniform(options_.scale.low, options_.scale.high);
  affine.shear.x = random.uniform(options_.shear.x.low, options_.shear.x.high);
  affine.shear.y = random.uniform(options_.shear.y.low, options_.shear.y.high);
  return functional::affine(image, affine,
                            {.who = "RandomAffine",
                             .interpolation = options_.interpolation,
                             .fill = options_.fill,
                             .center = options_.center});
}

RandomPerspective::RandomPerspective(RandomPerspectiveOptions options) : options_(std::move(options)) {
  check_probability("RandomPerspective: distortion_scale", options_.distortion_scale);
  check_probability("RandomPerspective: p", options_.p);
  check_turn("RandomPerspective", options_.interpolation);
}

at::Tensor RandomPerspective::operator()(const at::Tensor& image) const {
  check_image("RandomPerspective", image);
  SampleRandom& random = sample_random();
  if (!random.chance(options_.p)) return image;
  const std::int64_t height = image.size(1), width = image.size(2);
  const auto reach = [&](std::int64_t side) {
    return static_cast<std::int64_t>(options_.distortion_scale * static_cast<double>(side / 2)) + 1;
  };
  const std::int64_t down = reach(height), across = reach(width);
  const auto corner = [&](bool right, bool bottom) {
    const std::int64_t x = random.below(across), y = random.below(down);
    return Point{static_cast<double>(right ? width - across + x : x),
                 static_cast<double>(bottom ? height - down + y : y)};
  };
  // In braces, C++ makes the calls from left to right. So the corners draw their random numbers in the order
  // in which they stand here.
  const std::array<Point, 4> corners{corner(false, false), corner(true, false), corner(true, true),
                                     corner(false, true)};
  return functional::perspective(
      image, corners,
      {.who = "RandomPerspective", .interpolation = options_.interpolation, .fill = options_.fill});
}

RandomErasing::RandomErasing(RandomErasingOptions options) : options_(options) {
  check_probability("RandomErasing: p", options_.p);
  check_range("RandomErasing: scale", options_.scale);
  check_range("RandomErasing: ratio", options_.ratio);
}

at::Tensor RandomErasing::operator()(const at::Tensor& image) const {
  check_image("RandomErasing", image);
  const std::size_t values = options_.value.values.size();
  if (options_.random_value && !image.is_floating_point())
    refuse("RandomErasing",
           "random values need a floating image: put ToDtype(at::kFloat, {.scale = true}) before it");
  if (values > 1 && std::cmp_not_equal(values, image.size(0)))
    refuse("RandomErasing",
           fmt::format("{} values do not fit an image of {} channels", values, image.size(0)));
  if (!sample_random().chance(options_.p)) return image;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Sides sides = random_sides(image, options_.scale, options_.ratio);
    const std::int64_t height = rounded(sides.first), width = rounded(sides.second);
    if (height >= image.size(1) || width >= image.size(2)) continue;
    at::Tensor erased = image.clone();
    const at::Tensor place = part(erased, random_place(erased, height, width));
    place.copy_(options_.random_value
                    ? at::randn(place.sizes(), at::make_generator<at::CPUGeneratorImpl>(sample_random()()))
                    : at::tensor(options_.value.values, at::kDouble).view({-1, 1, 1}));
    return erased;
  }
  return image;
}

}  // namespace muster::transforms
