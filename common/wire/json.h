// JSON from files and datagrams that others may have written.
//
// The library reads any depth of nesting, but writes and copies by recursion, so that a deep document would
// end the process; and it casts any number to any other, which is undefined for 1e300. This refuses both.
// Plain functions; safe in any thread.
#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

namespace muster {

// Numbers that are not whole: only job.json and report.json have some.
enum class Fractions { kRefused, kTaken };
// nlohmann::json::exception if it is not JSON, nested deeper than 8, or has a number that is refused.
nlohmann::json parse_shallow_json(std::string_view text, Fractions fractions = Fractions::kRefused);

// nlohmann::json::exception if it is not a whole number, or not one of `Number`.
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

// The value, or JSON's null.
template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace muster
