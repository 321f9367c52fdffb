// The functions of torchvision.transforms.v2.functional, under the same names. They transform an image
// with given parameters.
//
// The caller must have checked the image. The functions draw no random numbers, and compute only in the
// calling thread. Any thread can call them.
#pragma once

#include <ATen/core/Tensor.h>
#include <array>
#include <cstdint>
#include <muster/vision/transforms_color.h>
#include <muster/vision/transforms_geometry.h>
#include <optional>
#include <string_view>

namespace muster::transforms::functional {

// ---- Geometry

// Throws std::invalid_argument, with a text that begins with `who`, in two cases:
// - The number of fill values is neither 1 nor that of the image's channels.
// - The image is too small to reflect that many pixels.
at::Tensor pad(std::string_view who, const at::Tensor& image, const Padding& padding,
               const PadOptions& options);
at::Tensor resize(const at::Tensor& image, const ImageSize& size, const ResizeOptions& options);

struct Turn {
  std::string_view who;  // how the error about a wrong fill begins
  InterpolationMode interpolation = InterpolationMode::kNearest;
  // Without a fill, fills with 0. A fill of 0 differs from that only at the image's edge: as in torchvision,
  // it mixes bilinear pixels with 0 twice instead of once.
  std::optional<Fill> fill = std::nullopt;
  std::optional<Point> center = std::nullopt;
  bool expand = false;
};
at::Tensor rotate(const at::Tensor& image, double angle, const Turn& turn);

struct Affine {
  double angle = 0;
  Point translate = {0, 0};
  double scale = 1;
  Point shear = {0, 0};
};
at::Tensor affine(const at::Tensor& image, const Affine& affine, const Turn& turn);

// Moves the image's corners to `corners`: top left, top right, bottom right, bottom left.
at::Tensor perspective(const at::Tensor& image, const std::array<Point, 4>& corners, const Turn& turn);

// ---- Colors

// Returns the type to compute in: the image's own if it is floating, else float.
at::ScalarType floating_type(const at::Tensor& image);
// Returns 255 for uint8, 1 for floating types.
double largest_value(const at::Tensor& image);
// Returns a floating image as uint8. As in torchvision, each of the 256 values covers an equal interval.
at::Tensor bytes_of(const at::Tensor& image);
at::Tensor gray(const at::Tensor& image);  // [1, height, width] of the image's type
at::Tensor adjust_brightness(const at::Tensor& image, double factor);
at::Tensor adjust_contrast(const at::Tensor& image, double factor);
at::Tensor adjust_saturation(const at::Tensor& image, double factor);
at::Tensor adjust_hue(const at::Tensor& image, double turn);
at::Tensor adjust_sharpness(const at::Tensor& image, double factor);
at::Tensor gaussian_blur(const at::Tensor& image, const KernelSize& size, double sigma);
at::Tensor posterize(const at::Tensor& image, int bits);
at::Tensor solarize(const at::Tensor& image, double threshold);
at::Tensor autocontrast(const at::Tensor& image);
at::Tensor equalize(const at::Tensor& image);
at::Tensor invert(const at::Tensor& image);

}  // namespace muster::transforms::functional
