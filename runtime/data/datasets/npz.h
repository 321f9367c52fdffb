// Arrays as numpy.savez() and savez_compressed() write them: a ZIP archive of .npy files.
#pragma once

#include <ATen/core/Tensor.h>
#include <map>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster {

// Copies of the arrays by their names, which are those of the files without ".npy". kCorrupt says what is
// damaged, or which array torch has no type for, without the file's name.
Expected<std::map<std::string, at::Tensor>> tensors_of_npz(std::string_view bytes);

}  // namespace muster
