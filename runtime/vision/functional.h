// What transforms make of an image when all parameters are given: torchvision.transforms.v2.functional's
// functions, by their names.
//
// Plain functions of images that a transform has checked; they draw nothing, and those that would start other
// threads compute in one. Safe from any thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <array>
#include <cstdint>
#include <muster/vision/transforms_color.h>
#include <muster/vision/transforms_geometry.h>
#include <optional>
#include <string_view>

namespace muster::transforms::functional {

// ---- Where pixels lie

// std::invalid_argument, in the name of `who`, if the fill has not as many values as the image channels, or
// if there is less to reflect than is wanted.
at::Tensor pad(std::string_view who, const at::Tensor& image, const Padding& padding,
               const PadOptions& options);
at::Tensor resize(const at::Tensor& image, const ImageSize& size, const ResizeOptions& options);

struct Turn {
  std::string_view who;  // in whose name a fill that does not fit is refused
  InterpolationMode interpolation = InterpolationMode::kNearest;
  // None: 0, and bilinear pixels at the edge are mixed with it once, and not twice as torchvision does with a
  // fill of 0.
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

// The corners of the image come to these places: top left, top right, bottom right, bottom left.
at::Tensor perspective(const at::Tensor& image, const std::array<Point, 4>& corners, const Turn& turn);

// ---- Which values they have

// In which it is computed: its own, or float.
at::ScalarType floating_type(const at::Tensor& image);
// Of the type's 0 .. 255 or 0 .. 1.
double largest_value(const at::Tensor& image);
// A floating image as uint8; as in torchvision, each of the 256 values covers an equal interval.
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
