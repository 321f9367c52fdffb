// Tensors in the form in which they are sent: as rows of bytes, whatever the type and the memory layout of
// the tensor are.
//
// A Packed is a plain value. Only one thread at a time can use it. It keeps its tensor alive.
#pragma once

#include <ATen/ATen.h>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>

namespace muster {

// Returns a text such as "Float [2, 3]".
inline std::string shape_text(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

// A tensor that a collective reads or fills, in the form of one row of elements or bytes. If the memory of
// the tensor is contiguous, the row is this memory. Otherwise the row is a copy. unpack() then copies the row
// back into the tensor.
class Packed {
 public:
  // Makes a view only if one is needed. Making a view takes as long as all other work of LibTorch for a small
  // collective.
  explicit Packed(const at::Tensor& tensor)
      : original_(tensor.requires_grad() ? tensor.detach() : tensor),
        packed_(original_.contiguous()),
        row_(packed_.dim() == 1 ? packed_ : packed_.view({-1})) {}
  const at::Tensor& row() const { return row_; }
  at::Tensor bytes() const { return row_.scalar_type() == at::kByte ? row_ : row_.view(at::kByte); }
  void unpack() const {
    if (!packed_.is_same(original_)) original_.copy_(packed_);
  }

 private:
  at::Tensor original_, packed_, row_;
};

inline at::Tensor tensor_of(const std::string& bytes) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}
inline std::string string_of(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<std::size_t>(bytes.numel())};
}

}  // namespace muster
