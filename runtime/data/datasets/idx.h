// Reads one file in the IDX format (http://yann.lecun.com/exdb/mnist), plain or compressed by gzip or zstd.
//
// The format: two zero bytes, the type of the elements, the number of dimensions, each dimension as a 32-bit
// number, the elements. All numbers are big-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace muster {

enum class IdxType : std::uint8_t {
  kUnsignedByte = 0x08,
  kSignedByte = 0x09,
  kShort = 0x0b,
  kInt = 0x0c,
  kFloat = 0x0d,
  kDouble = 0x0e,
};

struct IdxArray {
  IdxType type = IdxType::kUnsignedByte;
  std::vector<std::uint32_t> shape;
  std::vector<std::uint8_t> bytes;  // of the elements, in this machine's byte order
};

std::size_t element_bytes(IdxType type);  // 0 if the type does not exist

// Errors name the file: missing, truncated, longer than its header says, not IDX, larger than 4 GiB.
Expected<IdxArray> read_idx_array(const std::string& path);

}  // namespace muster
