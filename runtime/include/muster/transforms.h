// Augmentations of images, with torchvision.transforms' names, arguments and distributions.
//
//   const transforms::Compose train({transforms::RandomResizedCrop(224), transforms::RandomHorizontalFlip(),
//                                    transforms::ToDtype(at::kFloat, {.scale = true}),
//                                    transforms::Normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225})});
//   const auto dataset = muster::transformed(images, train);
//
// Function objects from an image on the CPU, [channels, height, width], uint8 or floating, to another; what
// they are given they leave as it is. They draw from sample_random(): the same image comes out for the same
// seed, epoch and index, whoever loads it. std::invalid_argument says what does not fit. Safe from any
// thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <muster/transformed.h>
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

// ---- Where pixels lie

struct ImageSize {
  ImageSize(std::int64_t side) : height(side), width(side) {}  // implicit: RandomCrop(28)
  ImageSize(std::int64_t the_height, std::int64_t the_width) : height(the_height), width(the_width) {}
  std::int64_t height, width;
};
struct Range {
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

struct RandomCropOptions {
  std::int64_t padding = 0;    // on each side, before the crop is taken
  bool pad_if_needed = false;  // images that are still too small; otherwise they are refused
  double fill = 0;
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

// Bilinear with antialiasing; the values are those of torch.nn.functional.interpolate.
class Resize {
 public:
  explicit Resize(std::int64_t shorter_side);  // the other one in proportion
  explicit Resize(ImageSize size);
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  ImageSize size_;
  bool keep_ratio_;
};

struct RandomResizedCropOptions {
  Range scale = {0.08, 1};         // of the image's area
  Range ratio = {3. / 4, 4. / 3};  // of width to height
};
class RandomResizedCrop {
 public:
  explicit RandomResizedCrop(ImageSize size, RandomResizedCropOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  ImageSize size_;
  RandomResizedCropOptions options_;
};

struct RandomErasingOptions {
  double p = 0.5;
  Range scale = {0.02, 0.33};
  Range ratio = {0.3, 3.3};
  double value = 0;
};
class RandomErasing {
 public:
  explicit RandomErasing(RandomErasingOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  RandomErasingOptions options_;
};

// ---- What values they have

struct ToDtypeOptions {
  bool scale = false;  // uint8's 0 .. 255 to 0 .. 1 and back
};
class ToDtype {
 public:
  explicit ToDtype(at::ScalarType type, ToDtypeOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  at::ScalarType type_;
  bool scale_;
};

// (value - mean) / std, for each channel; of floating images. One mean and std serve for all channels.
class Normalize {
 public:
  Normalize(std::vector<double> mean, std::vector<double> std);
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  at::Tensor mean_, std_;
};

// 0.2989 red + 0.587 green + 0.114 blue, once or three times.
class Grayscale {
 public:
  explicit Grayscale(std::int64_t num_output_channels = 1);
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  std::int64_t channels_;
};

// Each of the four, in random order, by a factor from [1 - x, 1 + x] (hue: turned by a part of the circle
// from [-hue, hue]); what is 0 is left out. Saturation and hue need three channels.
struct ColorJitterOptions {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
class ColorJitter {
 public:
  explicit ColorJitter(ColorJitterOptions options);
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  ColorJitterOptions options_;
};

}  // namespace muster::transforms
