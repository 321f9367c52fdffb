// Masks, checks and messages that metrics share.
#pragma once

#include <ATen/core/Tensor.h>
#include <muster/comm/group.h>
#include <string>

namespace muster {

std::string shape_of(const at::Tensor& tensor);  // "[2, 3]"

// Returns a mask that has the shape of `like` and is on its device. If `mask` is undefined, all values of the
// result are true. If `mask` has one value for each example, this value is repeated along the other
// dimensions. If the mask does not fit, throws std::invalid_argument, which names the metric.
at::Tensor expanded_mask(const char* metric, const at::Tensor& mask, const at::Tensor& like);

// If a class is not in `0 .. num_classes - 1`, throws std::invalid_argument, which names the metric. Classes
// on a GPU are not checked, because the check would have to wait for the GPU.
void check_classes(const char* metric, const at::Tensor& classes, std::int64_t num_classes);

// Logs a warning on the group's first rank that a metric has no values.
void warn_of_nothing(const Group& group);

}  // namespace muster
