// Parses `$NAME` and `${NAME}` in settings. Pure.
#pragma once

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace muster::launcher {

// `text` is the text after the dollar sign. Returns the name, and its length together with its braces. If
// there is no name, the length is 0.
inline std::pair<std::string_view, std::size_t> name_in(std::string_view text) {
  const bool braced = text.starts_with('{');
  if (braced) text.remove_prefix(1);
  const auto end = std::ranges::find_if_not(
      text, [](unsigned char letter) { return std::isalnum(letter) != 0 || letter == '_'; });
  const std::string_view name = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  if (!braced) return {name, name.size()};
  return text.substr(name.size()).starts_with('}') ? std::pair(name, name.size() + 2)
                                                   : std::pair(std::string_view(), std::size_t{0});
}

}  // namespace muster::launcher
