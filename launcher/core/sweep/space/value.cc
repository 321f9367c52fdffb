#include "launcher/core/sweep/space/value.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <type_traits>
#include <utility>

#include "common/base/text.h"

namespace muster::launcher::sweep {

namespace {

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

bool may_be_in_identifier(char letter) {
  return letter == '_' || is_digit(letter) || (letter >= 'a' && letter <= 'z') ||
         (letter >= 'A' && letter <= 'Z');
}

}  // namespace

std::string text_of(const Value& value) {
  return std::visit(
      []<class Type>(const Type& held) -> std::string {
        if constexpr (std::is_same_v<Type, std::string>) {
          return held;
        } else if constexpr (std::is_same_v<Type, std::monostate>) {
          return "None";
        } else {
          return fmt::format("{}", held);
        }
      },
      value);
}

Value value_of(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool begins_as_number = !digits.empty() && (is_digit(digits[0]) || digits[0] == '.');
  const bool has_padding = digits.size() > 1 && digits[0] == '0' && is_digit(digits[1]);
  if (!begins_as_number || has_padding) return std::string(text);
  if (const auto whole = parse_number<std::int64_t>(text)) return *whole;
  if (std::ranges::all_of(digits, is_digit)) return std::string(text);
  if (const auto real = parse_number<double>(text)) return *real;
  return std::string(text);
}

bool is_identifier(std::string_view text) {
  return !text.empty() && !is_digit(text[0]) && std::ranges::all_of(text, may_be_in_identifier);
}

std::string variable_of(std::string_view parameter) {
  std::string variable = "MUSTER_PARAM_";
  for (const unsigned char letter : parameter) variable += static_cast<char>(std::toupper(letter));
  return variable;
}

nlohmann::ordered_json value_as_json(const Value& value) {
  return std::visit(
      []<class Type>(const Type& held) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<Type, std::monostate>) {
          return nullptr;
        } else {
          return held;
        }
      },
      value);
}

std::optional<Value> value_from_json(const nlohmann::ordered_json& json) {
  if (json.is_null()) return std::monostate();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned()) {
    const auto whole = json.get<std::uint64_t>();
    return std::in_range<std::int64_t>(whole) ? std::optional<Value>(static_cast<std::int64_t>(whole))
                                              : std::nullopt;
  }
  if (json.is_number_integer()) return json.get<std::int64_t>();
  return std::nullopt;
}

nlohmann::ordered_json point_as_json(const Point& point) {
  auto json = nlohmann::ordered_json::object();
  for (const auto& [name, value] : point) json[name] = value_as_json(value);
  return json;
}

Expected<Point> point_from_json(const nlohmann::ordered_json& json) {
  if (!json.is_object()) {
    return failure(ErrorCode::kInvalidArgument,
                   "a point must be an object of values by parameter, such as {{\"lr\": 0.1}}");
  }
  Point point;
  for (const auto& [name, member] : json.items()) {
    auto value = value_from_json(member);
    if (!value) {
      return failure(ErrorCode::kInvalidArgument, "{}: expected a number, a word, true or false",
                     one_line(name));
    }
    point.emplace(name, *std::move(value));
  }
  return point;
}

}  // namespace muster::launcher::sweep
