// Reads one file in the IDX format (http://yann.lecun.com/exdb/mnist), plain or compressed by gzip or zstd.
//
// A file has two zero bytes, the type of the elements (a byte), the number of dimensions (a byte), the size
// of each dimension (32 bits), and the elements. All numbers are big-endian.
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

std::size_t element_bytes(IdxType type);  // returns 0 if the type does not exist

// Reads an IDX file. Fails if the file is missing, is truncated, is longer than its header says, is not an
// IDX file, or has more than 4 GiB of elements. Errors name the file.
Expected<IdxArray> read_idx_array(const std::string& path);

}  // namespace muster
