// Arrays as numpy.save() writes them: a header with type, order and shape, and the elements.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace muster {

struct NpyHeader {
  std::string descr;                    // "<u2"; "a structure" where it is one
  std::optional<at::ScalarType> dtype;  // none: torch has no such type, or not in this order of bytes
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::size_t data_at = 0;  // bytes before the elements
};

// kCorrupt says that it is damaged, without the file's name.
Expected<NpyHeader> read_npy_header(std::span<const std::byte> bytes);
// A copy; kCorrupt too for what torch does not have, and for too many or too few elements.
Expected<at::Tensor> tensor_of_npy(std::span<const std::byte> bytes);

}  // namespace muster
