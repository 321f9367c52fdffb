// Reads JSON from files and datagrams that cannot be trusted.
//
// nlohmann's library parses any depth of nesting, but it writes and copies by recursion. So a deep document
// would crash the process. The library also converts any number to any other type. For a number such as
// 1e300, the behavior is undefined. The functions here refuse such documents and such conversions. Safe from
// any thread.
#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

namespace muster {

// Says whether numbers with fractions are accepted.
enum class Fractions { kRefused, kTaken };
// Parses the text. Throws nlohmann::json::exception if it is not JSON, if it is nested more than 8 deep, or
// if it has a number that is refused.
nlohmann::json parse_shallow_json(std::string_view text, Fractions fractions = Fractions::kRefused);

// Returns the value as a `Number`. Throws nlohmann::json::exception if the value is not a whole number, or if
// it does not fit into `Number`.
template <std::integral Number>
Number whole_number(const nlohmann::json& value) {
  if (const auto* positive = value.get_ptr<const nlohmann::json::number_unsigned_t*>();
      positive != nullptr && std::in_range<Number>(*positive))
    return static_cast<Number>(*positive);
  if (const auto* any = value.get_ptr<const nlohmann::json::number_integer_t*>();
      any != nullptr && !value.is_number_unsigned() && std::in_range<Number>(*any))
    return static_cast<Number>(*any);
  throw nlohmann::json::other_error::create(502, "not a whole number, or too large", &value);
}

// Returns the value, or JSON's null if there is none.
template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace muster
