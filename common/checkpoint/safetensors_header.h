// The header of a safetensors file: a little-endian u64 length, then JSON padded with spaces. The tensors'
// bytes follow, without gaps.
//
// Input may come from anywhere: lengths, overflow, gaps and overlap are checked. Plain functions without
// files: the caller reads and writes the data.
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

// The first bytes of a file, and the size of the whole file.
struct FileHead {
  std::string text;  // length and JSON; the data follows
  std::uint64_t file_bytes = 0;
};

// Decides where each tensor lies and writes that into `tensors`, which it sorts: large elements first, so
// that every tensor is aligned to its element, then by name. The data begins at a multiple of
// `head_alignment`, which is a multiple of 8.
// kInvalidArgument: two tensors with one name, a name or value that is not UTF-8, a tensor that does not fill
// whole bytes, or a header of more than 100,000,000 bytes.
Expected<FileHead> lay_out(std::vector<HeaderTensor>& tensors,
                           const std::map<std::string, std::string>& metadata,
                           std::uint64_t head_alignment = 8);

inline constexpr std::uint64_t kHeaderLengthBytes = 8;
// Returns the header's length after its first 8 bytes. kCorrupt if a file of this size cannot have it.
Expected<std::uint64_t> header_bytes(std::string_view first_8, std::uint64_t file_bytes);
// `text`: the JSON after the first 8 bytes. kCorrupt says what is wrong; kInvalidArgument names an unknown
// element type.
Expected<SafetensorsHeader> parse_header(std::string_view text, std::uint64_t file_bytes);

}  // namespace muster
