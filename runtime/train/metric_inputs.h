// Masks, checks and messages that metrics share.
#pragma once

#include <ATen/core/Tensor.h>
#include <muster/comm/group.h>
#include <string>

namespace muster {

std::string shape_of(const at::Tensor& tensor);  // "[2, 3]"

// Returns a mask with the shape and on the device of `like`. It is all true if `mask` is undefined. If `mask`
// has one value for each example, repeats it along the other dimensions. Throws std::invalid_argument, which
// names the metric, if the mask does not fit.
at::Tensor expanded_mask(const char* metric, const at::Tensor& mask, const at::Tensor& like);

// Throws std::invalid_argument, which names the metric, if a class is not in `0 .. num_classes - 1`. Does not
// check classes on a GPU, because that would wait for the GPU.
void check_classes(const char* metric, const at::Tensor& classes, std::int64_t num_classes);

// Logs a warning on the group's first rank that a metric has no values.
void warn_of_nothing(const Group& group);

}  // namespace muster
