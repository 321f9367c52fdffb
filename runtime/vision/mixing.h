// The computations of MixUp and CutMix with given random numbers.
//
// MixUp and CutMix must have checked the arguments, except labels. Any thread can call the functions.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <muster/vision/transforms_geometry.h>
#include <string_view>

namespace muster::transforms {

// Returns new rows. Each is the sum of `share` times the row and `1 - share` times the row before it. The row
// before the first is the last.
at::Tensor mixed(const at::Tensor& rows, double share);
// Mixes labels in the same way. They are [batch] of int64, which needs `num_classes`, or [batch, classes]. If
// they are not, throws std::invalid_argument with a text that begins with `who`.
at::Tensor mixed_labels(std::string_view who, const at::Tensor& labels, std::int64_t num_classes,
                        double share);

struct CutBox {
  std::int64_t left, top, right, bottom;
  double share;  // the share of the image's area outside of the box
};
// Returns a box centered at (x, y) with `1 - share` of the image's area. Cuts the box off at the image's
// edges, so CutBox::share can be larger than `share`.
CutBox cut_box(const ImageSize& size, double share, std::int64_t x, std::int64_t y);
at::Tensor cut_and_pasted(const at::Tensor& images, const CutBox& box);

}  // namespace muster::transforms
