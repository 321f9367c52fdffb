// Reads one file in the IDX format (http://yann.lecun.com/exdb/mnist): two zero bytes, the type of the
// elements, the number of dimensions, each dimension as a big-endian 32-bit number, the elements. Plain or
// gzip. Only unsigned bytes (type 8) are taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace muster {

struct IdxArray {
  std::vector<std::uint32_t> shape;
  std::vector<std::uint8_t> bytes;
};

// Errors name the file: missing, truncated, longer than its header says, not IDX, larger than 4 GiB.
Expected<IdxArray> read_idx(const std::string& path);

}  // namespace muster
