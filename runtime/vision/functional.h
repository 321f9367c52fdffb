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

// Throws std::invalid_argument in two cases. Its text begins with `who`.
// - The number of fill values is neither 1 nor the number of the image's channels.
// - The mode reflects the image, but the image has fewer pixels than the padding needs.
at::Tensor pad(std::string_view who, const at::Tensor& image, const Padding& padding,
               const PadOptions& options);
at::Tensor resize(const at::Tensor& image, const ImageSize& size, const ResizeOptions& options);

struct Turn {
  std::string_view who;  // how the error about a wrong fill begins
  InterpolationMode interpolation = InterpolationMode::kNearest;
  // If there is no fill, the new pixels are 0. This is not quite the same as a fill of 0. At the edge of the
  // image, bilinear interpolation mixes pixels with the fill. Without a fill, these pixels are mixed with 0
  // once. With a fill of 0, they are mixed with 0 twice, as in torchvision.
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

// Transforms the image so that its corners are at the points `corners`: first the top left corner, then the
// top right, the bottom right and the bottom left corner.
at::Tensor perspective(const at::Tensor& image, const std::array<Point, 4>& corners, const Turn& turn);

// ---- Colors

// Returns the type in which to compute. If the image has a floating type, it is this type. Otherwise it is
// float.
at::ScalarType floating_type(const at::Tensor& image);
// Returns the value of a white pixel: 255 for uint8, and 1 for floating types.
double largest_value(const at::Tensor& image);
// Converts an image of a floating type to uint8. The range from 0 to 1 is divided into 256 intervals of equal
// size, one for each value, as in torchvision.
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
