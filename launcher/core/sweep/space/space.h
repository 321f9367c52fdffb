// The space that a sweep searches: its parameters, when each is active, and which points are allowed.
//
// A space is read from text: from flags (`lr=loguniform:1e-5:1e-1,units=choice:32:64`) or from the `space` of
// a sweep file. Every error is one line: the parameter, the text, and what would be right. Pure.
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

// The parameter exists only in points in which the parameter `of` is active and has one of `values`.
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

// Parses the value of --space, NAME=KIND[:ARGUMENT]...[,NAME=...], with these kinds and arguments:
//   uniform:LOW:HIGH  loguniform:LOW:HIGH  quniform:LOW:HIGH:STEP  int:LOW:HIGH  int-log:LOW:HIGH
//   choice:VALUE:VALUE...  constant:VALUE  normal:MEAN:SD
// A value that looks like a number, or is true or false, is one. After a backslash, `,` and `:` are ordinary
// letters.
Expected<Space> parse_space(std::string_view text);
// Parses the members `space` and `constraints` of a sweep file. It is JSON here; launcher/io converts YAML.
//   "space": {"lr": "loguniform:1e-5:1e-1", "momentum": {"uniform": [0, 1], "when": {"optimizer": "sgd"}},
//   "units": [32, 64]} "constraints": ["units * layers <= 512"]
// A list is a choice. A single number, word or boolean is a constant. A condition needs a parameter with a
// finite list of values: choice, constant, int, int-log.
Expected<Space> space_from_json(const nlohmann::ordered_json& file);
// space_from_json() reads the result back as the same space.
nlohmann::ordered_json space_as_json(const Space& space);

// nullptr: the space does not have it.
const Parameter* parameter_named(const Space& space, std::string_view name);
// Whether the parameter exists in `point`, which has all active parameters before this one.
bool is_active(const Parameter& parameter, const Point& point);
// The number of different values; nullopt: not finite.
std::optional<std::uint64_t> value_count(const Parameter& parameter);
// Maps `unit`, a number in [0, 1), to a value of the parameter by the parameter's distribution. If all values
// are equally likely (every finite kind but kIntLog), `(k + 0.5) / value_count()` gives value number k.
Value value_at(const Parameter& parameter, double unit);
// The point at `unit`, which has a number in [0, 1) for each parameter of the space. Leaves out inactive
// parameters.
Point point_at(const Space& space, const std::vector<double>& unit);
// Whether all constraints hold. A constraint that names an inactive parameter holds.
bool is_allowed(const Space& space, const Point& point);
// "unknown parameter lrr: did you mean lr?" `others`: more names that exist.
std::string unknown_parameter(const Space& space, std::string_view name,
                              std::span<const std::string_view> others = {});
// Why a point that another program chose does not belong to the space; nullopt if it does.
std::optional<std::string> why_not_in(const Space& space, const Point& point);

}  // namespace muster::launcher::sweep
