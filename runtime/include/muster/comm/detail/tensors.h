// Finds the tensors inside a value. The value is a tensor, or a container, optional, tuple or struct that has
// tensors at any depth.
//
// Not for direct use.
#pragma once

#include <ATen/core/Tensor.h>
#include <concepts>
#include <cstdint>
#include <muster/comm/detail/fields.h>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace muster::detail {

template <class Value>
constexpr bool kIsOptional = false;
template <class Value>
constexpr bool kIsOptional<std::optional<Value>> = true;

// A class with a member function that lists its tensors.
template <class Value>
concept NamesItsTensors = requires(Value& value) {
  { value.tensors() } -> std::same_as<std::vector<at::Tensor*>>;
};

template <class Value>
constexpr bool kHidesItsTensors = false;

template <class Value>
void collect_tensors(Value& value, std::vector<at::Tensor*>& tensors) {
  using Plain = std::remove_const_t<Value>;
  if constexpr (std::is_same_v<Value, at::Tensor>) {
    tensors.push_back(&value);
  } else if constexpr (std::is_arithmetic_v<Value> || std::is_enum_v<Value> ||
                       std::is_same_v<Plain, std::string>) {
  } else if constexpr (NamesItsTensors<Value>) {
    for (at::Tensor* tensor : value.tensors()) tensors.push_back(tensor);
  } else if constexpr (kIsOptional<Plain>) {
    if (value) collect_tensors(*value, tensors);
  } else if constexpr (requires { std::tuple_size<Plain>::value; }) {
    std::apply([&](auto&... element) { (collect_tensors(element, tensors), ...); }, value);
  } else if constexpr (requires { value.begin() != value.end(); }) {
    if constexpr (!std::is_arithmetic_v<typename Plain::value_type>)
      for (auto& element : value) collect_tensors(element, tensors);
  } else if constexpr (std::is_aggregate_v<Plain>) {
    std::apply([&](auto&... field) { (collect_tensors(field, tensors), ...); }, fields(value));
  } else {
    static_assert(
        kHidesItsTensors<Value>,
        "a batch or sample has a part of this type, and tensors in it cannot be found, "
        "so they would not be pinned, counted or moved to the device: "
        "use tensors, numbers, strings, enums, optionals, containers, tuples and plain structs of them, "
        "or give the type a member function std::vector<at::Tensor*> tensors() that returns its tensors");
  }
}

// Returns the tensors that make up `tensor`. Each of them lies in a single block of memory. For a dense
// tensor this is the tensor itself, and for a sparse tensor its parts. For any other layout, returns nothing.
std::vector<at::Tensor> dense_parts(const at::Tensor& tensor);
// Returns the bytes of a tensor of any layout. If the tensor is undefined, returns 0.
std::int64_t tensor_bytes(const at::Tensor& tensor);

}  // namespace muster::detail
