// Reads little-endian numbers from the bytes of files, at any alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>

namespace muster {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

// Returns the number that begins at byte `at`. The caller must check that the number lies within the bytes.
template <class Number, class Bytes>
Number number_at(const Bytes& bytes, std::size_t at) {
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

}  // namespace muster
