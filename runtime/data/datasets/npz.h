// Arrays as numpy.savez() and savez_compressed() write them: a ZIP archive of .npy files.
#pragma once

#include <ATen/core/Tensor.h>
#include <map>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster {

// Returns copies of the arrays. Their names are the file names without ".npy". kCorrupt: the archive is
// damaged, or torch does not have the type of an array. The message does not name the archive.
Expected<std::map<std::string, at::Tensor>> tensors_of_npz(std::string_view bytes);

}  // namespace muster
