// Reads JSON that is not trusted. It comes from a Docker engine or a credential helper.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace muster::launcher {

using Json = nlohmann::json;

// Returns null if the text is not JSON.
inline Json parse_json(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Json() : json;
}

// The member of an object, or null.
inline const Json& member(const Json& object, const std::string& key) {
  static const Json kNothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? kNothing : *found;
}

// The member's string, or "".
inline std::string text_in(const Json& object, const std::string& key) {
  const Json& found = member(object, key);
  return found.is_string() ? found.get<std::string>() : "";
}

}  // namespace muster::launcher
