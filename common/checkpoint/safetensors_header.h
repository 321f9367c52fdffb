// The header of a safetensors file: u64 little-endian length, JSON padded with spaces; behind it the tensors'
// bytes, without holes.
//
// What is read may be anybody's: lengths, overflow, holes and overlap are checked. Plain functions, no files:
// the data is the caller's to write and to read.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/saved_tensor.h"

namespace muster {

struct HeaderTensor {
  std::string name = {};
  Dtype dtype{};
  Extents shape = {};
  std::uint64_t begin_bytes = 0;  // in the file
  std::uint64_t size_bytes = 0;
  bool operator==(const HeaderTensor&) const = default;
};

struct SafetensorsHeader {
  std::vector<HeaderTensor> tensors;            // in the order of their data
  std::map<std::string, std::string> metadata;  // __metadata__
};

// The first bytes of a file, and how many the whole file has.
struct FileHead {
  std::string text;  // length and JSON: the data begins behind it
  std::uint64_t file_bytes = 0;
};

// Decides where each tensor lies, and writes that into `tensors`, which it sorts: large elements first, so
// that every tensor is aligned to its element, and else by name. kInvalidArgument: two of one name, a name or
// value that is not UTF-8, a shape that has no whole bytes, or a header of more than 100,000,000 bytes.
// `head_alignment`: a multiple of 8; the data begins at a multiple of it.
Expected<FileHead> lay_out(std::vector<HeaderTensor>& tensors,
                           const std::map<std::string, std::string>& metadata,
                           std::uint64_t head_alignment = 8);

inline constexpr std::uint64_t kHeaderLengthBytes = 8;
// How many bytes follow the first 8; kCorrupt if they cannot be a header in a file of this size.
Expected<std::uint64_t> header_bytes(std::string_view first_8, std::uint64_t file_bytes);
// `text`: what stands behind the first 8 bytes. kCorrupt says what is wrong, kInvalidArgument which type of
// elements is not known.
Expected<SafetensorsHeader> parse_header(std::string_view text, std::uint64_t file_bytes);

}  // namespace muster
