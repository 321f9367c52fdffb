// Tensors in the form in which they are sent: rows of bytes, whatever their type and memory layout.
//
// Plain values for one thread; a Packed keeps its tensor alive.
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

// A tensor that a collective reads or fills, as one row of elements or bytes. If the tensor's memory is
// contiguous, the row is that memory. Otherwise it is a copy, which unpack() copies back.
class Packed {
 public:
  // Creates a view only where needed: it would take as long as a small collective's path through LibTorch.
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
