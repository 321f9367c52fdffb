// The space that a sweep searches. It says which parameters there are, when each is active, and which points
// are allowed.
//
// A space is read from text: from flags (`lr=loguniform:1e-5:1e-1,units=choice:32:64`) or from the `space` of
// a sweep file. An error is one line. It names the parameter, the text, and what would be right. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "launcher/core/sweep/space/constraint.h"
#include "launcher/core/sweep/space/value.h"

namespace muster::launcher::sweep {

// A parameter with this condition exists only in those points where another parameter, with the name `of`, is
// active and has one of `values`. For example, momentum may exist only if optimizer is "sgd".
struct Condition {
  std::string of;
  std::vector<Value> values;
  bool operator==(const Condition&) const = default;
};

struct Parameter {
  enum class Kind {
    kUniform,     // a real number in [low, high]
    kLogUniform,  // the same, uniform in its logarithm; low > 0
    kQUniform,    // low + k * step, at most high
    kInt,         // a whole number in [low, high]
    kIntLog,      // the same, uniform in its logarithm; low > 0
    kChoice,      // one of `choices`
    kConstant,    // choices[0]
    kNormal,      // a real number, normally distributed: mean `low`, standard deviation `high` > 0
  };
  std::string name;  // an identifier: [A-Za-z_][A-Za-z0-9_]*
  Kind kind = Kind::kConstant;
  double low = 0;
  double high = 0;
  double step = 0;  // of kQUniform; otherwise 0
  std::vector<Value> choices{};
  std::optional<Condition> when{};
  bool operator==(const Parameter&) const = default;
};

struct Space {
  std::vector<Parameter> parameters;  // a condition names only parameters before its own
  std::vector<Constraint> constraints;
};

// Parses the value of --space, NAME=KIND[:ARGUMENT]...[,NAME=...]. The kinds and their arguments are:
//   uniform:LOW:HIGH  loguniform:LOW:HIGH  quniform:LOW:HIGH:STEP  int:LOW:HIGH  int-log:LOW:HIGH
//   choice:VALUE:VALUE...  constant:VALUE  normal:MEAN:SD
// If a value looks like a number, or is true or false, it is a number or a boolean. After a backslash, `,`
// and `:` are ordinary letters.
Expected<Space> parse_space(std::string_view text);
// Parses the members `space` and `constraints` of a sweep file. `file` is JSON, because launcher/io has
// already converted the YAML.
//   "space": {"lr": "loguniform:1e-5:1e-1", "momentum": {"uniform": [0, 1], "when": {"optimizer": "sgd"}},
//   "units": [32, 64]} "constraints": ["units * layers <= 512"]
// A list is a choice. A single number, word or boolean is a constant. A condition needs a parameter with a
// finite list of values: choice, constant, int, int-log.
Expected<Space> space_from_json(const nlohmann::ordered_json& file);
// Returns the space as JSON. space_from_json() makes the same space from it.
nlohmann::ordered_json space_as_json(const Space& space);

// Returns the parameter of this name. Returns nullptr if the space has none.
const Parameter* parameter_named(const Space& space, std::string_view name);
// Returns whether the parameter exists in `point`. The point must contain all active parameters that come
// before this one.
bool is_active(const Parameter& parameter, const Point& point);
// Returns the number of different values. Returns nullopt if it is not finite.
std::optional<std::uint64_t> value_count(const Parameter& parameter);
// Maps `unit`, a number in [0, 1), to a value of the parameter by the parameter's distribution. For a kind
// with finitely many values, except kIntLog, all values are equally likely. Then `(k + 0.5) / value_count()`
// gives the value number k.
Value value_at(const Parameter& parameter, double unit);
// Returns the point for `unit`. `unit` has a number in [0, 1) for each parameter of the space. Parameters
// that are inactive are left out.
Point point_at(const Space& space, const std::vector<double>& unit);
// Returns whether all constraints hold. A constraint that names an inactive parameter counts as one that
// holds.
bool is_allowed(const Space& space, const Point& point);
// Returns a text such as "unknown parameter lrr: did you mean lr?". `others` are more names that exist.
std::string unknown_parameter(const Space& space, std::string_view name,
                              std::span<const std::string_view> others = {});
// Another program chose the point. Returns why the point does not belong to the space, or nullopt if it does
// belong to it.
std::optional<std::string> why_not_in(const Space& space, const Point& point);

}  // namespace muster::launcher::sweep
