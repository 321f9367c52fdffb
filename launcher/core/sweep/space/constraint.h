// A constraint of a space: an expression over parameters that must be true, such as `units * layers <= 512`.
//
// An expression has numbers, strings in quotes, true, false, names of parameters, the operators ( ) + - * / %
// ** < <= > >= == != and or not, and the functions min, max, abs, log, log2, exp, sqrt, floor, ceil. As in
// Python, comparisons chain, `/` divides exactly, `**` binds closest, and true counts as 1. Strings can only
// be compared. Pure.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "launcher/core/sweep/space/value.h"

namespace muster::launcher::sweep {

class Constraint {
 public:
  // Reads the text of a constraint. If it cannot be read, the error says at which character, and what was
  // expected there.
  static Expected<Constraint> parse(std::string text);
  const std::string& text() const { return text_; }
  const std::set<std::string>& names() const { return names_; }  // the parameters that it names
  // Returns whether the constraint holds. Returns nullopt if the point lacks a parameter that the constraint
  // names. Also returns nullopt if an operation has no result, such as a division by 0, or a string times a
  // number.
  std::optional<bool> holds(const Point& point) const;
  // Whether the word has a meaning of its own, as `and` and `true` have. A parameter cannot have such a word
  // as its name.
  static bool is_reserved(std::string_view word);

  struct Node;

 private:
  Constraint() = default;
  std::string text_;
  std::set<std::string> names_;
  std::shared_ptr<const Node> root_;
};

}  // namespace muster::launcher::sweep
