// The tensors inside a value, however they are packed: a tensor, or containers, tuples and structs of them.
//
// Not for direct use.
#pragma once

#include <ATen/core/Tensor.h>
#include <muster/detail/fields.h>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace muster::detail {

template <class Value>
void collect_tensors(Value& value, std::vector<at::Tensor*>& tensors) {
  if constexpr (std::is_same_v<Value, at::Tensor>) {
    tensors.push_back(&value);
  } else if constexpr (std::is_arithmetic_v<Value> ||
                       std::is_same_v<std::remove_const_t<Value>, std::string>) {
  } else if constexpr (requires { std::tuple_size<Value>::value; }) {
    std::apply([&](auto&... element) { (collect_tensors(element, tensors), ...); }, value);
  } else if constexpr (requires { value.begin() != value.end(); }) {
    for (auto& element : value) collect_tensors(element, tensors);
  } else if constexpr (std::is_aggregate_v<Value>) {
    std::apply([&](auto&... field) { (collect_tensors(field, tensors), ...); }, fields(value));
  }
}

}  // namespace muster::detail
