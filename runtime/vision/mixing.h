// Computes MixUp and CutMix from random numbers that the caller has drawn.
//
// MixUp and CutMix check the arguments before they call these functions. Only the labels are checked here.
// Any thread can call the functions.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <muster/vision/transforms_geometry.h>
#include <string_view>

namespace muster::transforms {

// Returns new rows. Each new row is `share` times the old row at the same place, plus `1 - share` times the
// previous old row. The previous row of the first row is the last row.
at::Tensor mixed(const at::Tensor& rows, double share);
// Mixes labels in the same way. Labels can be int64 numbers of the shape [batch]. Then `num_classes` must be
// given. Or they have the shape [batch, classes]. All other labels are refused by std::invalid_argument,
// whose text begins with `who`.
at::Tensor mixed_labels(std::string_view who, const at::Tensor& labels, std::int64_t num_classes,
                        double share);

struct CutBox {
  std::int64_t left, top, right, bottom;
  double share;  // the share of the image's area outside of the box
};
// Returns a box with its center at (x, y). Its area is `1 - share` of the area of the image. A part of the
// box outside of the image is cut off. Then CutBox::share is larger than `share`.
CutBox cut_box(const ImageSize& size, double share, std::int64_t x, std::int64_t y);
at::Tensor cut_and_pasted(const at::Tensor& images, const CutBox& box);

}  // namespace muster::transforms
