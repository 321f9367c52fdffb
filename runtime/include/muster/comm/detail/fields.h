// Gives access to the fields of a struct without their names: their number, and a reference to each.
//
// For plain aggregates with one to eight fields and without base classes. Not for direct use.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster::detail {

struct AnyField {
  template <class Field>
  operator Field() const;  // NOLINT: never defined, only its type is needed
};

template <class Struct, std::size_t... Index>
constexpr bool can_be_made_of(std::index_sequence<Index...>) {
  return requires { Struct{(static_cast<void>(Index), AnyField())...}; };
}

template <class Struct, std::size_t Count = 9>
constexpr std::size_t field_count() {
  static_assert(Count > 0 && (Count < 9 || !can_be_made_of<Struct>(std::make_index_sequence<9>())),
                "a sample must be a struct of one to eight fields, and none of them may be an array: "
                "use structs inside it, std::tuple or std::vector");
  if constexpr (can_be_made_of<Struct>(std::make_index_sequence<Count>()))
    return Count;
  else
    return field_count<Struct, Count - 1>();
}

// Returns references to the fields, in order.
template <class Struct>
auto fields(Struct& value) {
  constexpr std::size_t kCount = field_count<std::remove_const_t<Struct>>();
  if constexpr (kCount == 1) {
    auto& [a] = value;
    return std::tie(a);
  } else if constexpr (kCount == 2) {
    auto& [a, b] = value;
    return std::tie(a, b);
  } else if constexpr (kCount == 3) {
    auto& [a, b, c] = value;
    return std::tie(a, b, c);
  } else if constexpr (kCount == 4) {
    auto& [a, b, c, d] = value;
    return std::tie(a, b, c, d);
  } else if constexpr (kCount == 5) {
    auto& [a, b, c, d, e] = value;
    return std::tie(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    auto& [a, b, c, d, e, f] = value;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    auto& [a, b, c, d, e, f, g] = value;
    return std::tie(a, b, c, d, e, f, g);
  } else {
    auto& [a, b, c, d, e, f, g, h] = value;
    return std::tie(a, b, c, d, e, f, g, h);
  }
}

}  // namespace muster::detail
