// What transforms say of an image that they cannot use.
//
// One line: which of them, what would be right, and what the image is. std::invalid_argument, which names no
// sample: the loader adds that.
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
  if (!image.is_cpu()) refuse(who, "an image is in the CPU's memory, and not on " + c10::str(image.device()));
  if (image.dim() != 3)
    refuse(who, "an image is [channels, height, width], and not " + c10::str(image.sizes()));
  if (image.numel() == 0) refuse(who, "an image of no pixels: " + c10::str(image.sizes()));
  if (image.scalar_type() != at::kByte && !image.is_floating_point())
    refuse(who, fmt::format("an image is of uint8 or floating, and not of {}",
                            c10::toString(image.scalar_type())));
}

inline void check_channels(std::string_view who, const at::Tensor& image) {
  if (image.size(0) != 1 && image.size(0) != 3)
    refuse(who, fmt::format("an image of 1 or 3 channels is needed, and not of {}", image.size(0)));
}

// "RandomErasing: scale".
void check_range(std::string_view argument, const Range& range);
// Of what turns an image.
void check_turn(std::string_view who, InterpolationMode mode);

inline void check_probability(std::string_view argument, double p) {
  check_argument(p >= 0 && p <= 1, argument, p, "from 0 to 1");
}

}  // namespace muster::transforms
