// Transforms of pixel positions: crops, flips, sizes, rotations. Part of muster/vision/transforms.h, which
// describes what all transforms share.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

namespace muster::transforms {

struct ImageSize {
  ImageSize(std::int64_t side) : height(side), width(side) {}  // implicit: RandomCrop(28)
  ImageSize(std::int64_t the_height, std::int64_t the_width) : height(the_height), width(the_width) {}
  std::int64_t height, width;
};
struct Range {
  double low, high;
};
// A point in an image, in pixels from the upper left corner.
struct Point {
  double x, y;
};

// How a pixel is computed from the pixels around its source position. Rotations, affine and perspective
// transforms support only kNearest and kBilinear.
enum class InterpolationMode { kNearest, kNearestExact, kBilinear, kBicubic };

// How pixels outside of an image are filled.
enum class PaddingMode {
  kConstant,   // `fill`
  kEdge,       // 1 1 | 1 2 3
  kReflect,    // 3 2 | 1 2 3
  kSymmetric,  // 2 1 | 1 2 3
};

// The value of a pixel: one number, or one number for each channel.
struct Fill {
  Fill(double value = 0) : values{value} {}
  Fill(std::initializer_list<double> channels) : values(channels) {}
  std::vector<double> values;
};

// How many pixels are added around an image. With one number, all sides get that many. With two numbers, the
// first is for left and right, and the second for top and bottom. With four numbers, each side has its own.
struct Padding {
  Padding(std::int64_t all) : Padding(all, all) {}
  Padding(std::int64_t horizontal, std::int64_t vertical)
      : Padding(horizontal, vertical, horizontal, vertical) {}
  Padding(std::int64_t the_left, std::int64_t the_top, std::int64_t the_right, std::int64_t the_bottom)
      : left(the_left), top(the_top), right(the_right), bottom(the_bottom) {}
  std::int64_t left, top, right, bottom;
};

// A range of angles: from -most to most, or from low to high. Angles are counter-clockwise; in RandomAffine
// they are clockwise.
struct Degrees {
  Degrees(double most) : low(-most), high(most) {}
  Degrees(double the_low, double the_high) : low(the_low), high(the_high) {}
  double low, high;
};

class RandomHorizontalFlip {
 public:
  explicit RandomHorizontalFlip(double p = 0.5);
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  double p_;
};

class RandomVerticalFlip {
 public:
  explicit RandomVerticalFlip(double p = 0.5);
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  double p_;
};

struct PadOptions {
  Fill fill = 0;
  PaddingMode padding_mode = PaddingMode::kConstant;
};
class Pad {
 public:
  explicit Pad(Padding padding, PadOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  Padding padding_;
  PadOptions options_;
};

struct RandomCropOptions {
  Padding padding = 0;         // applied before the crop
  bool pad_if_needed = false;  // pad images that are still too small; false: throw
  Fill fill = 0;
  PaddingMode padding_mode = PaddingMode::kConstant;
};
class RandomCrop {
 public:
  explicit RandomCrop(ImageSize size, RandomCropOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  ImageSize size_;
  RandomCropOptions options_;
};

// A smaller image is padded with 0.
class CenterCrop {
 public:
  explicit CenterCrop(ImageSize size);
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  ImageSize size_;
};

struct ResizeOptions {
  InterpolationMode interpolation = InterpolationMode::kBilinear;
  bool antialias = true;  // for bilinear and bicubic
  // A limit for the longer side. It applies if only the shorter side is given. If the longer side would
  // exceed the limit, both sides become smaller in the same ratio. 0: there is no limit.
  std::int64_t max_size = 0;
};
// Changes the size of an image. The new pixels have the values that torch.nn.functional.interpolate computes.
class Resize {
 public:
  explicit Resize(std::int64_t shorter_side, ResizeOptions options = {});  // keeps the aspect ratio
  explicit Resize(ImageSize size, ResizeOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  ImageSize size_;
  bool keep_ratio_;
  ResizeOptions options_;
};

struct RandomResizedCropOptions {
  Range scale = {0.08, 1};         // fraction of the image's area
  Range ratio = {3. / 4, 4. / 3};  // width / height
  InterpolationMode interpolation = InterpolationMode::kBilinear;
  bool antialias = true;
};
class RandomResizedCrop {
 public:
  explicit RandomResizedCrop(ImageSize size, RandomResizedCropOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  ImageSize size_;
  RandomResizedCropOptions options_;
};

struct RandomRotationOptions {
  InterpolationMode interpolation = InterpolationMode::kNearest;
  bool expand = false;                         // enlarge the image so that nothing is cut off
  std::optional<Point> center = std::nullopt;  // empty: the image's center
  Fill fill = 0;
};
class RandomRotation {
 public:
  explicit RandomRotation(Degrees degrees, RandomRotationOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  Degrees degrees_;
  RandomRotationOptions options_;
};

// The angles of a shear along x, or along x and y.
struct Shear {
  Shear(double most) : x(most), y(0) {}
  Shear(double low, double high) : x(low, high), y(0) {}
  Shear(double x_low, double x_high, double y_low, double y_high) : x(x_low, x_high), y(y_low, y_high) {}
  Degrees x, y;
};
struct RandomAffineOptions {
  struct Translate {
    double horizontal, vertical;
  };
  Translate translate = {0, 0};  // at most this fraction of width and height, in either direction
  Range scale = {1, 1};
  Shear shear = 0;
  InterpolationMode interpolation = InterpolationMode::kNearest;
  Fill fill = 0;
  std::optional<Point> center = std::nullopt;  // empty: the image's center
};
class RandomAffine {
 public:
  explicit RandomAffine(Degrees degrees, RandomAffineOptions options = {});  // clockwise
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  Degrees degrees_;
  RandomAffineOptions options_;
};

struct RandomPerspectiveOptions {
  double distortion_scale = 0.5;  // a corner moves at most this fraction of the way to the middle
  double p = 0.5;
  InterpolationMode interpolation = InterpolationMode::kBilinear;
  Fill fill = 0;
};
class RandomPerspective {
 public:
  explicit RandomPerspective(RandomPerspectiveOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  RandomPerspectiveOptions options_;
};

struct RandomErasingOptions {
  double p = 0.5;
  Range scale = {0.02, 0.33};
  Range ratio = {0.3, 3.3};
  Fill value = 0;
  bool random_value = false;  // fill with noise of mean 0 and variance 1; floating-point images only
};
class RandomErasing {
 public:
  explicit RandomErasing(RandomErasingOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  RandomErasingOptions options_;
};

}  // namespace muster::transforms
