// Converts types of elements: from torch's to those of safetensors, and back.
//
// The functions have no state.
#pragma once

#include <c10/core/ScalarType.h>
#include <optional>

#include "common/checkpoint/saved_tensor.h"

namespace muster {

std::optional<Dtype> dtype_of(at::ScalarType type);         // none: safetensors does not have the type
std::optional<at::ScalarType> scalar_type_of(Dtype dtype);  // none: torch does not have the type

}  // namespace muster
