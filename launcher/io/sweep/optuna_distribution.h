// The distribution of a parameter, as the files of Optuna describe it. Files of versions before 3.0 are read,
// too. The distribution becomes a parameter of a space.
//
// For optuna_import.cc. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep::optuna {

struct Distribution {
  enum class Type { kReal, kWhole, kChoice } type = Type::kReal;
  bool logarithmic = false;
  double low = 0;
  double high = 0;
  double step = 0;  // 0: none
  std::vector<Value> choices{};
};

// Reads the text as a distribution. If it is not one, throws nlohmann::ordered_json::exception.
Distribution distribution_in(const std::string& text);
// Returns the value that the program got. `internal` is the value as Optuna's files have it. For a choice,
// this is the number of the choice.
Value external_value(const Distribution& distribution, double internal);
// Optuna lets the range of a number change from trial to trial, but not its kind. Extends the range of `all`,
// so that it includes that of `other`. Returns false if the two are of different kinds.
bool widen(Distribution& all, const Distribution& other);
Parameter parameter_of(const std::string& name, const Distribution& distribution);

// The object's member of this name, or null.
const nlohmann::ordered_json& member(const nlohmann::ordered_json& json, const char* name);

}  // namespace muster::launcher::sweep::optuna
