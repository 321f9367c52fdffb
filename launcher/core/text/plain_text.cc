#include "launcher/core/text/plain_text.h"

#include <algorithm>

namespace muster::launcher {

namespace {

constexpr char kEscape = '\x1b';

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n') || c == '\x7f';
}

bool is_between(char c, char low, char high) {
  return low <= c && c <= high;
}

// Returns the size of the escape sequence (ECMA-48) at the start of `text`. There are three forms:
// - ESC and `[`, then parameters, and a final letter.
// - ESC and one of ] P X ^ _, then a text. The text ends with BEL or with `ESC \`.
// - Any other: ESC, then intermediate letters, and a final letter.
// A sequence that is not finished extends to the end of the line.
std::size_t sequence_size(std::string_view text) {
  std::size_t at = 1;
  const auto skip = [&](char low, char high) {
    while (at < text.size() && is_between(text[at], low, high)) ++at;
  };
  if (at < text.size() && text[at] == '[') {
    ++at;
    skip('\x20', '\x3f');
    return at < text.size() && is_between(text[at], '\x40', '\x7e') ? at + 1 : at;
  }
  if (at < text.size() && std::string_view("]PX^_").contains(text[at])) {
    for (; at < text.size() && text[at] != '\n'; ++at) {
      if (text[at] == '\a') return at + 1;
      if (text[at] == kEscape && text.substr(at + 1).starts_with('\\')) return at + 2;
    }
    return at;
  }
  skip('\x20', '\x2f');
  return at < text.size() && is_between(text[at], '\x30', '\x7e') ? at + 1 : at;
}

// Returns whether the sequence sets colours, as ESC [ 1;31 m does. Such a sequence is called "select graphic
// rendition". Its private forms do not count.
bool is_color(std::string_view sequence) {
  return sequence.starts_with("\x1b[") && sequence.ends_with('m') &&
         sequence.find_first_not_of("0123456789;:", 2) == sequence.size() - 1;
}

// Returns true only if the sequence certainly switches off all colours. If it does so in a way that this
// function does not know, the line ends with a second reset, which does no harm.
bool is_reset(std::string_view color) {
  return color.substr(2).find_first_not_of("0;") == color.size() - 3;
}

}  // namespace

bool is_plain(std::string_view line) {
  return std::ranges::none_of(line, is_control);
}

std::string for_terminal(std::string_view line, bool color) {
  std::string shown;
  bool colored = false;
  while (!line.empty()) {
    std::size_t size = 1;
    if (line[0] == kEscape) {
      size = sequence_size(line);
      const std::string_view sequence = line.substr(0, size);
      if (color && is_color(sequence)) {
        shown += sequence;
        colored = !is_reset(sequence);
      }
    } else if (!is_control(line[0])) {
      if (line[0] == '\n' && colored) shown += "\x1b[0m";
      shown += line[0];
    }
    line.remove_prefix(size);
  }
  return shown;
}

}  // namespace muster::launcher
