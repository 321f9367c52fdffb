// The computations of MixUp and CutMix with given random numbers.
//
// Plain functions. MixUp and CutMix have checked the arguments, except for labels. Safe from any thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <muster/vision/transforms_geometry.h>
#include <string_view>

namespace muster::transforms {

// Returns new rows, each `share` of the row and `1 - share` of the row before it (for the first, the last).
at::Tensor mixed(const at::Tensor& rows, double share);
// Labels are [batch] of int64 (they need `num_classes`) or [batch, classes]. Throws std::invalid_argument
// with a text that begins with `who`.
at::Tensor mixed_labels(std::string_view who, const at::Tensor& labels, std::int64_t num_classes,
                        double share);

struct CutBox {
  std::int64_t left, top, right, bottom;
  double share;  // of the image that is outside of the box
};
// Returns a box centered at (x, y) with 1 - `share` of the image's area, cut off at the image's edges.
// CutBox::share is then the share of the image outside of the box.
CutBox cut_box(const ImageSize& size, double share, std::int64_t x, std::int64_t y);
at::Tensor cut_and_pasted(const at::Tensor& images, const CutBox& box);

}  // namespace muster::transforms
