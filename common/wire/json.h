// Reads JSON from files and datagrams that cannot be trusted.
//
// nlohmann's library parses any depth of nesting, but writes and copies by recursion, so a deep document
// would crash the process. It also converts any number to any other type, which is undefined for 1e300. These
// functions refuse such documents and such conversions. Safe from any thread.
#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

namespace muster {

// Says whether numbers with fractions are accepted.
enum class Fractions { kRefused, kTaken };
// Throws nlohmann::json::exception if the text is not JSON, is nested more than 8 deep, or has a refused
// number.
nlohmann::json parse_shallow_json(std::string_view text, Fractions fractions = Fractions::kRefused);

// Throws nlohmann::json::exception if the value is not a whole number, or does not fit into `Number`.
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
