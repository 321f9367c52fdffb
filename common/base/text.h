// Small functions for text.
//
// Returned views point into the text passed in. Plain functions, safe to call from any thread.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Splits the text at each separator. The result has one part more than there are separators. A part can be
// empty.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

// Returns whether `word` is one of `words`, which are separated by single spaces.
inline bool has_word(std::string_view words, std::string_view word) {
  const auto all = split(words, ' ');
  return std::ranges::find(all, word) != all.end();
}

// Replaces every control character by a question mark, so that text from elsewhere stays on one line and
// cannot control the terminal.
inline std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char letter) { return static_cast<unsigned char>(letter) < ' ' || letter == 0x7f; }, '?');
  return text;
}

// Returns whether the text is valid UTF-8 (RFC 3629), which JSON requires.
inline bool is_utf8(std::string_view text) {
  const auto byte_at = [text](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  for (std::size_t at = 0; at < text.size();) {
    const unsigned char first = byte_at(at);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xC2 ? 0
                               : first < 0xE0 ? 2
                               : first < 0xF0 ? 3
                               : first < 0xF5 ? 4
                                              : 0;
    if (length == 0 || text.size() - at < length) return false;
    for (std::size_t i = 1; i < length; ++i) {
      if ((byte_at(at + i) & 0xC0) != 0x80) return false;
    }
    const unsigned char second = length > 1 ? byte_at(at + 1) : 0;
    const bool too_long = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
    const bool no_letter = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
    if (too_long || no_letter) return false;
    at += length;
  }
  return true;
}

// Returns the beginning of a UTF-8 text: at most `most_bytes` bytes. It is cut between two characters.
inline std::string_view beginning_of(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  std::size_t size = most_bytes;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

// Parses a number. Returns nothing if the text is not a number, if anything follows the number, or if it does
// not fit into `Number`.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace muster
