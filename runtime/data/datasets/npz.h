// Arrays in the form in which numpy.savez() and savez_compressed() write them: a ZIP archive of .npy files.
#pragma once

#include <ATen/core/Tensor.h>
#include <map>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace muster {

// Returns copies of the arrays. The name of an array is the name of its file without ".npy". Returns kCorrupt
// if the archive is damaged, or if torch does not have the type of an array. The message does not name the
// archive.
Expected<std::map<std::string, at::Tensor>> tensors_of_npz(std::string_view bytes);

}  // namespace muster
