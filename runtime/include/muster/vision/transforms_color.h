// Transforms of pixel values. Part of muster/vision/transforms.h, which describes what all transforms share.
#pragma once

#include <ATen/core/Tensor.h>
#include <array>
#include <cstdint>
#include <muster/vision/transforms_geometry.h>
#include <optional>
#include <vector>

namespace muster::transforms {

struct ToDtypeOptions {
  bool scale = false;  // map uint8's 0 .. 255 to 0 .. 1 and back
};
class ToDtype {
 public:
  explicit ToDtype(at::ScalarType type, ToDtypeOptions options = {});
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  at::ScalarType type_;
  bool scale_;
};

// Computes `(value - mean) / std` for each channel of a floating-point image. A single mean and std apply to
// all channels.
class Normalize {
 public:
  Normalize(std::vector<double> mean, std::vector<double> std);
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  at::Tensor mean_, std_;
};

// Computes `0.2989 red + 0.587 green + 0.114 blue`. The result has one channel, or three channels that are
// equal.
class Grayscale {
 public:
  explicit Grayscale(std::int64_t num_output_channels = 1);
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  std::int64_t channels_;
};

// Says how much ColorJitter changes a property: the largest change, or a range from which the change is
// drawn.
struct Jitter {
  Jitter(double the_spread) : spread(the_spread) {}
  Jitter(double low, double high) : range({low, high}) {}
  double spread = 0;
  std::optional<Range> range;
};
// ColorJitter applies the four changes in random order. Brightness, contrast and saturation change by a
// factor drawn from `[1 - spread, 1 + spread]` or from `range`. Hue turns by a fraction of the color circle,
// drawn from `[-spread, spread]` or from `range`. ColorJitter skips a change of size 0. Saturation and hue
// need three channels.
struct ColorJitterOptions {
  Jitter brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
class ColorJitter {
 public:
  explicit ColorJitter(ColorJitterOptions options);
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  struct Factors {
    const char* name;
    Range range;
    bool wanted;
  };
  static Factors factors(const char* name, const Jitter& jitter, double center, Range bounds);

  std::array<Factors, 4> factors_;  // brightness, contrast, saturation, hue
};

// The size of a kernel in pixels. Both numbers must be odd. The width comes first, as in PyTorch.
struct KernelSize {
  KernelSize(std::int64_t side) : width(side), height(side) {}
  KernelSize(std::int64_t the_width, std::int64_t the_height) : width(the_width), height(the_height) {}
  std::int64_t width, height;
};
// Pads the edges with their reflection.
class GaussianBlur {
 public:
  explicit GaussianBlur(KernelSize kernel_size, Range sigma = {0.1, 2});
  GaussianBlur(KernelSize kernel_size, double sigma) : GaussianBlur(kernel_size, Range{sigma, sigma}) {}
  at::Tensor operator()(const at::Tensor& image) const;

 private:
  KernelSize kernel_size_;
  Range sigma_;
};

}  // namespace muster::transforms
