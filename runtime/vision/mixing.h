// What MixUp and CutMix make of a batch when all that they draw is given.
//
// Plain functions of what has been checked, but for labels. Safe from any thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <muster/vision/transforms_geometry.h>
#include <string_view>

namespace muster::transforms {

// `share` of each row, and the rest of the one before it; of the first one: of the last.
at::Tensor mixed(const at::Tensor& rows, double share);
// [batch] of int64, which needs the number of classes, or [batch, classes]. std::invalid_argument in the name
// of `who`.
at::Tensor mixed_labels(std::string_view who, const at::Tensor& labels, std::int64_t num_classes,
                        double share);

struct CutBox {
  std::int64_t left, top, right, bottom;
  double share;  // of the image that is left of it
};
// About that place, of as much of the image as is not its `share`; cut off at the edges.
CutBox cut_box(const ImageSize& size, double share, std::int64_t x, std::int64_t y);
at::Tensor cut_and_pasted(const at::Tensor& images, const CutBox& box);

}  // namespace muster::transforms
