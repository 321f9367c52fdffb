// What metrics have in common: masks and messages.
#pragma once

#include <ATen/core/Tensor.h>
#include <muster/comm/group.h>
#include <string>

namespace muster {

std::string shape_of(const at::Tensor& tensor);  // "[2, 3]"

// A mask of the shape and on the device of `like`: all true where there is none, repeated along further
// dimensions where it is one for each example. std::invalid_argument names the metric.
at::Tensor expanded_mask(const char* metric, const at::Tensor& mask, const at::Tensor& like);

// std::invalid_argument, which names the metric, for a class that is not in 0 .. num_classes - 1. A
// GPU is not waited for, so its classes are not looked at.
void check_classes(const char* metric, const at::Tensor& classes, std::int64_t num_classes);

// On one rank.
void warn_of_nothing(const Group& group);

}  // namespace muster
