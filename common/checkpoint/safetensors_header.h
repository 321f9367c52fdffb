// The header of a safetensors file. It is a little-endian u64 length, and then JSON, padded with spaces. The
// bytes of the tensors follow, without gaps.
//
// The functions do not trust their input: they check lengths, overflow, gaps and overlap. They touch no
// files; the caller reads and writes the data.
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

// The bytes before the data of a file, and the size of the whole file.
struct FileHead {
  std::string text;  // length and JSON; the data follows
  std::uint64_t file_bytes = 0;
};

// Decides where each tensor lies in the file. Sorts `tensors`, and sets their begin_bytes and size_bytes.
// Tensors with large elements come first, so that each tensor is aligned to the size of its elements. Tensors
// with elements of the same size are sorted by name. The data begins at a multiple of `head_alignment`, which
// must be a multiple of 8. Returns kInvalidArgument if two tensors have the same name, if a name or value is
// not UTF-8, if the size of a tensor is not a whole number of bytes, or if the header would have more than
// 100,000,000 bytes.
Expected<FileHead> lay_out(std::vector<HeaderTensor>& tensors,
                           const std::map<std::string, std::string>& metadata,
                           std::uint64_t head_alignment = 8);

inline constexpr std::uint64_t kHeaderLengthBytes = 8;
// Returns the length of the JSON; `first_8` has the first 8 bytes of the file. Returns kCorrupt if the JSON
// does not fit into the file.
Expected<std::uint64_t> header_bytes(std::string_view first_8, std::uint64_t file_bytes);
// Parses the JSON; `text` begins after the first 8 bytes of the file. Returns kInvalidArgument if the type of
// an element is unknown, and names it. Returns kCorrupt for any other fault, and says which one.
Expected<SafetensorsHeader> parse_header(std::string_view text, std::uint64_t file_bytes);

}  // namespace muster
