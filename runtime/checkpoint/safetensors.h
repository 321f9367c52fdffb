// Reads and writes the safetensors format: u64 little-endian length of the header, JSON header, data without
// holes.
//
// Python reads what this writes. What it reads is checked before it is used: lengths, overflow, holes and
// overlap, and, if the writer noted any in __metadata__ as `xxh3:NAME`, the XXH3-128 of each tensor. Plain
// functions, no state.
#pragma once

#include <ATen/core/Tensor.h>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "runtime/checkpoint/shard_image.h"

namespace muster {

struct Safetensors {
  std::map<std::string, at::Tensor> tensors;  // on the CPU and contiguous
  std::map<std::string, std::string> metadata;
};

// Gives the file's bytes piece by piece, in order, to `write`, and stops at its first failure.
Status encode_safetensors(const Safetensors& content, const std::function<Status(std::string_view)>& write);

// A file with these tensors, which may lie on any device and in any order of their elements, and without
// digests of each: whoever writes it takes one of all that it writes. Its data begins at a page.
Expected<ShardImage> lay_out_safetensors(const Safetensors& content, const std::set<std::string>& finite);

// `file` is a whole file as a tensor of bytes; the tensors are views of it where alignment allows. kCorrupt
// says what is wrong.
Expected<Safetensors> parse_safetensors(const at::Tensor& file);

}  // namespace muster
