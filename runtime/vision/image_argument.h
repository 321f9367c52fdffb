// Errors about images that a transform cannot use.
//
// Each error is a std::invalid_argument with one line: the transform, the images that it can use, and how
// this image differs. The loader adds the name of the sample.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <muster/vision/transforms_geometry.h>
#include <string>
#include <string_view>

#include "runtime/data/argument.h"

namespace muster::transforms {

[[noreturn]] inline void refuse(std::string_view who, const std::string& what) {
  throw std::invalid_argument(fmt::format("{}: {}", who, what));
}

inline void check_image(std::string_view who, const at::Tensor& image) {
  if (!image.is_cpu())
    refuse(who, "an image must be in the CPU's memory, and this one is on " + c10::str(image.device()));
  if (image.dim() != 3)
    refuse(who, "an image must be [channels, height, width], and this one is " + c10::str(image.sizes()));
  if (image.numel() == 0) refuse(who, "the image has no pixels: " + c10::str(image.sizes()));
  if (image.scalar_type() != at::kByte && !image.is_floating_point())
    refuse(who, fmt::format("an image must be uint8 or floating, and this one is {}",
                            c10::toString(image.scalar_type())));
}

inline void check_channels(std::string_view who, const at::Tensor& image) {
  if (image.size(0) != 1 && image.size(0) != 3)
    refuse(who, fmt::format("an image must have 1 or 3 channels, and this one has {}", image.size(0)));
}

// `argument` is the name of the argument in an error, such as "RandomErasing: scale".
void check_range(std::string_view argument, const Range& range);
// Checks the interpolation of a transform that rotates or distorts images.
void check_turn(std::string_view who, InterpolationMode mode);

inline void check_probability(std::string_view argument, double p) {
  check_argument(p >= 0 && p <= 1, argument, p, "from 0 to 1");
}

}  // namespace muster::transforms
