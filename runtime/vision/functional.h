// The functions of torchvision.transforms.v2.functional, by the same names: transforms of an image with given
// parameters.
//
// Plain functions, for images that a transform has checked. They draw no random numbers, and compute in the
// calling thread alone. Safe from any thread.
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

// Throws std::invalid_argument, with a text that begins with `who`, if the number of fill values differs from
// the image's channels, or the image is too small to reflect that many pixels.
at::Tensor pad(std::string_view who, const at::Tensor& image, const Padding& padding,
               const PadOptions& options);
at::Tensor resize(const at::Tensor& image, const ImageSize& size, const ResizeOptions& options);

struct Turn {
  std::string_view who;  // begins the error about a fill that does not fit
  InterpolationMode interpolation = InterpolationMode::kNearest;
  // None: fills with 0. A fill of 0 differs from none only at the image's edge, where it mixes bilinear
  // pixels with 0 twice instead of once, as in torchvision.
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

// Moves the image's corners to these places: top left, top right, bottom right, bottom left.
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
