// A distribution of a parameter as Optuna's files describe it, also those of versions before 3.0, and the
// parameter of a space that it becomes.
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

// Throws nlohmann::ordered_json::exception if the text is not a distribution.
Distribution distribution_in(const std::string& text);
// The value that a program got; `internal`: as files have it, of a choice its number.
Value external_value(const Distribution& distribution, double internal);
// Optuna lets the range of a number, but not its kind, change from trial to trial. `all` becomes the range
// that has both. false: the kinds differ.
bool widen(Distribution& all, const Distribution& other);
Parameter parameter_of(const std::string& name, const Distribution& distribution);

// The object's member of this name, or null.
const nlohmann::ordered_json& member(const nlohmann::ordered_json& json, const char* name);

}  // namespace muster::launcher::sweep::optuna
