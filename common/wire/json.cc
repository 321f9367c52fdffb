#include "common/wire/json.h"

namespace muster {

namespace {

// Checks how deep the text is nested, by counting its brackets. A parser callback for each value would take
// twice the time.
void check_depth(std::string_view text) {
  constexpr int kDepthLimit = 8;
  int depth = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '\\': at += quoted ? 1 : 0; break;
      case '"': quoted = !quoted; break;
      case '[':
      case '{': depth += quoted ? 0 : 1; break;
      case ']':
      case '}': depth -= quoted ? 0 : 1; break;
      default: break;
    }
    if (depth > kDepthLimit) throw nlohmann::json::other_error::create(501, "nested deeper than 8", nullptr);
  }
}

}  // namespace

nlohmann::json parse_shallow_json(std::string_view text, Fractions fractions) {
  check_depth(text);
  // For the parser, a byte 0 is the end of the text. Valid JSON has no byte 0.
  if (text.contains('\0')) throw nlohmann::json::other_error::create(503, "a byte 0 in the text", nullptr);
  if (fractions == Fractions::kTaken) return nlohmann::json::parse(text);
  return nlohmann::json::parse(text, [](int, nlohmann::json::parse_event_t, const nlohmann::json& part) {
    if (part.is_number_float()) throw nlohmann::json::other_error::create(502, "not a whole number", nullptr);
    return true;
  });
}

}  // namespace muster
