// The value of a parameter, and a point. A point has a value for each active parameter.
//
// Converts both to the texts that a trial gets, and to and from JSON. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/error.h"

namespace muster::launcher::sweep {

// std::monostate: Python's None, which only studies of Optuna have.
using Value = std::variant<bool, std::int64_t, double, std::string, std::monostate>;
using Point = std::map<std::string, Value>;

// Returns the value as the trial gets it: `true`, `64`, `relu`, and for a real number the shortest text that
// reads back as the same number. None is `None`.
std::string text_of(const Value& value);
// If the text is a number or a boolean, returns that. Otherwise returns the text. `007`, `inf` and a whole
// number of more than 64 bits stay texts. If they became numbers, the trial would get other letters than the
// user gave.
Value value_of(std::string_view text);
// Returns whether a parameter can have this name. The name has to match [A-Za-z_][A-Za-z0-9_]*.
bool is_identifier(std::string_view text);
// The environment variable in which a trial gets the parameter: MUSTER_PARAM_LR for lr.
std::string variable_of(std::string_view parameter);

// Writes the value as JSON. A real number stays a real number, with enough digits to read it back exactly. So
// 1.0 becomes `1.0` and not `1`.
nlohmann::ordered_json value_as_json(const Value& value);
// Converts JSON to a value. null becomes None. Returns nullopt for a list, an object, or a whole number of
// more than 64 bits.
std::optional<Value> value_from_json(const nlohmann::ordered_json& json);
nlohmann::ordered_json point_as_json(const Point& point);
// The error names the member.
Expected<Point> point_from_json(const nlohmann::ordered_json& json);

}  // namespace muster::launcher::sweep
