// Arrays in the form in which numpy.save() writes them: first a header with the type, the order of the
// dimensions and the shape, and then the elements.
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
  std::string descr;                    // "<u2", or "structured"
  std::optional<at::ScalarType> dtype;  // nothing if torch has no such type in this byte order
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::size_t data_at = 0;  // offset of the elements in bytes
};

// Reads the header of a .npy file. Returns kCorrupt if the header is damaged. The message does not name the
// file.
Expected<NpyHeader> read_npy_header(std::span<const std::byte> bytes);
// Returns a copy of the array. Returns kCorrupt if the header is damaged, if torch does not have the type of
// the elements, or if the number of bytes is wrong.
Expected<at::Tensor> tensor_of_npy(std::span<const std::byte> bytes);

}  // namespace muster
