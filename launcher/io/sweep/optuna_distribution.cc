#include "launcher/io/sweep/optuna_distribution.h"

#include <algorithm>
#include <cmath>

namespace muster::launcher::sweep::optuna {

namespace {

using nlohmann::ordered_json;

Value choice_in(const ordered_json& json) {
  const auto value = value_from_json(json);
  return value ? *value : Value(json.dump());
}

std::optional<std::vector<Value>> listed(const Distribution& distribution) {
  constexpr double kMost = 256;
  using enum Distribution::Type;
  if (distribution.type == kChoice) return distribution.choices;
  if (distribution.low == distribution.high)
    return std::vector{external_value(distribution, distribution.low)};
  const double steps = (distribution.high - distribution.low) / std::max(distribution.step, 1.0);
  if (distribution.type != kWhole || distribution.step <= 1 || distribution.logarithmic || steps >= kMost)
    return std::nullopt;
  std::vector<Value> values;
  for (double value = distribution.low; value <= distribution.high; value += distribution.step)
    values.push_back(external_value(distribution, value));
  return values;
}

}  // namespace

Distribution distribution_in(const std::string& text) {
  const ordered_json json = ordered_json::parse(text);
  const std::string name = json.at("name");
  const ordered_json& attributes = json.at("attributes");
  Distribution found;
  if (name == "CategoricalDistribution") {
    found.type = Distribution::Type::kChoice;
    for (const auto& choice : attributes.at("choices")) found.choices.push_back(choice_in(choice));
    return found;
  }
  // Before version 3.0, Optuna had other names: IntUniformDistribution, DiscreteUniformDistribution (with
  // `q`), and so on.
  if (name.starts_with("Int")) found.type = Distribution::Type::kWhole;
  found.low = attributes.at("low").get<double>();
  found.high = attributes.at("high").get<double>();
  found.logarithmic = member(attributes, "log") == true || name.contains("Log");
  const ordered_json& step = member(attributes, name.starts_with("Discrete") ? "q" : "step");
  if (step.is_number()) found.step = step.get<double>();
  return found;
}

Value external_value(const Distribution& distribution, double internal) {
  using enum Distribution::Type;
  if (distribution.type == kReal || !std::isfinite(internal)) return internal;
  if (distribution.type == kWhole) return static_cast<std::int64_t>(std::llround(internal));
  const auto last = static_cast<double>(distribution.choices.size()) - 1;
  return distribution.choices.at(static_cast<std::size_t>(std::clamp(internal, 0.0, std::max(last, 0.0))));
}

bool widen(Distribution& all, const Distribution& other) {
  if (all.type != other.type || all.logarithmic != other.logarithmic) return false;
  all.low = std::min(all.low, other.low);
  all.high = std::max(all.high, other.high);
  if (all.step != other.step) all.step = all.type == Distribution::Type::kWhole ? 1 : 0;
  for (const Value& choice : other.choices) {
    if (std::ranges::find(all.choices, choice) == all.choices.end()) all.choices.push_back(choice);
  }
  return true;
}

Parameter parameter_of(const std::string& name, const Distribution& distribution) {
  using enum Parameter::Kind;
  Parameter parameter{.name = name};
  if (auto values = listed(distribution)) {
    parameter.kind = values->size() == 1 ? kConstant : kChoice;
    parameter.choices = *std::move(values);
    return parameter;
  }
  parameter.low = distribution.low;
  parameter.high = distribution.high;
  if (distribution.type == Distribution::Type::kWhole) {
    parameter.kind = distribution.logarithmic ? kIntLog : kInt;
    return parameter;
  }
  parameter.kind = distribution.logarithmic ? kLogUniform : distribution.step > 0 ? kQUniform : kUniform;
  parameter.step = distribution.step;
  return parameter;
}

const ordered_json& member(const ordered_json& json, const char* name) {
  static const ordered_json kNothing = nullptr;
  const auto found = json.find(name);
  return found == json.end() ? kNothing : *found;
}

}  // namespace muster::launcher::sweep::optuna
