// torch's types of elements by their names in safetensors.
//
// Plain functions.
#pragma once

#include <c10/core/ScalarType.h>
#include <optional>

#include "common/checkpoint/saved_tensor.h"

namespace muster {

std::optional<Dtype> dtype_of(at::ScalarType type);         // none: safetensors cannot hold it
std::optional<at::ScalarType> scalar_type_of(Dtype dtype);  // none: torch cannot

}  // namespace muster
