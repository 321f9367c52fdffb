#include "launcher/core/sweep/space/placeholders.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "common/base/text.h"

namespace muster::launcher::sweep {

namespace {

// A name with braces on both sides, such as `{{NAME}`. The name is an identifier.
struct Braced {
  std::string_view name;
  std::size_t opening = 0;  // braces
  std::size_t closing = 0;
};

// `text` begins with a brace.
std::optional<Braced> braced_at_begin(std::string_view text) {
  const std::size_t name_at = std::min(text.find_first_not_of('{'), text.size());
  const std::size_t name_end = std::min(text.find('}', name_at), text.size());
  const std::size_t end = std::min(text.find_first_not_of('}', name_end), text.size());
  const Braced braced{text.substr(name_at, name_end - name_at), name_at, end - name_end};
  if (braced.closing == 0 || !is_identifier(braced.name)) return std::nullopt;
  return braced;
}

struct Known {
  const Space& space;
  const Point& point;
  const std::map<std::string, std::string>& more;
};

// Returns the text for the name. Returns nullopt if the name is unknown.
std::optional<std::string> text_for(const Known& known, std::string_view name) {
  if (parameter_named(known.space, name) != nullptr) {
    const auto value = known.point.find(std::string(name));
    return value == known.point.end() ? "" : text_of(value->second);
  }
  const auto other = known.more.find(std::string(name));
  return other == known.more.end() ? std::nullopt : std::optional(other->second);
}

std::unexpected<Error> unknown_name(std::string_view argument, const Known& known, std::string_view name) {
  std::vector<std::string_view> others;
  for (const auto& [other, _] : known.more) others.emplace_back(other);
  return failure(ErrorCode::kInvalidArgument, "argument `{}`: {} (to pass {{{}}} itself, write {{{{{}}}}})",
                 one_line(std::string(argument)), unknown_parameter(known.space, name, others), name, name);
}

}  // namespace

Expected<std::string> filled(std::string_view argument, const Space& space, const Point& point,
                             const std::map<std::string, std::string>& more) {
  const Known known{space, point, more};
  std::string result;
  for (std::string_view rest = argument; !rest.empty();) {
    const std::size_t brace = std::min(rest.find('{'), rest.size());
    result += rest.substr(0, brace);
    rest.remove_prefix(brace);
    if (rest.empty()) break;
    const auto braced = braced_at_begin(rest);
    if (!braced) {
      const std::size_t end = std::min(rest.find_first_not_of('{'), rest.size());
      result += rest.substr(0, end);
      rest.remove_prefix(end);
      continue;
    }
    // Pairs each opening brace with a closing one. Two pairs stand for one brace on each side. If one pair is
    // left over, the name is a placeholder.
    const std::size_t pairs = std::min(braced->opening, braced->closing);
    std::string middle(braced->name);
    if (pairs % 2 == 1) {
      auto text = text_for(known, braced->name);
      if (!text) return unknown_name(argument, known, braced->name);
      middle = *std::move(text);
    }
    result += std::string(braced->opening - pairs + pairs / 2, '{') + middle +
              std::string(braced->closing - pairs + pairs / 2, '}');
    rest.remove_prefix(braced->opening + braced->name.size() + braced->closing);
  }
  return result;
}

}  // namespace muster::launcher::sweep
