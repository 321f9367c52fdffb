#include <algorithm>
#include <array>
#include <cmath>
#include <ranges>
#include <set>
#include <tuple>
#include <utility>

#include "common/base/text.h"
#include "launcher/core/sweep/space/space.h"
#include "launcher/core/text/nearest.h"

namespace muster::launcher::sweep {

namespace {

// Whole numbers up to 2^53 can be stored in a `double` exactly.
constexpr double kMostExact = 9007199254740992.0;

// ---- A parameter as it was written ----

struct KindForm {
  std::string_view name;
  Parameter::Kind kind;
  std::size_t arguments;  // 0: one or more
  std::string_view form;
};
constexpr std::array<KindForm, 8> kKindForms = {{
    {"uniform", Parameter::Kind::kUniform, 2, "uniform:LOW:HIGH"},
    {"loguniform", Parameter::Kind::kLogUniform, 2, "loguniform:LOW:HIGH"},
    {"quniform", Parameter::Kind::kQUniform, 3, "quniform:LOW:HIGH:STEP"},
    {"int", Parameter::Kind::kInt, 2, "int:LOW:HIGH"},
    {"int-log", Parameter::Kind::kIntLog, 2, "int-log:LOW:HIGH"},
    {"choice", Parameter::Kind::kChoice, 0, "choice:VALUE:VALUE..."},
    {"constant", Parameter::Kind::kConstant, 1, "constant:VALUE"},
    {"normal", Parameter::Kind::kNormal, 2, "normal:MEAN:SD"},
}};
constexpr std::string_view kFlagExample = "lr=loguniform:1e-5:1e-1,units=choice:32:64";

bool is_kind(std::string_view name) {
  return std::ranges::find(kKindForms, name, &KindForm::name) != kKindForms.end();
}

const KindForm& form_of(Parameter::Kind kind) {
  return *std::ranges::find(kKindForms, kind, &KindForm::kind);
}

bool has_whole_values(Parameter::Kind kind) {
  return kind == Parameter::Kind::kInt || kind == Parameter::Kind::kIntLog;
}

bool has_listed_values(Parameter::Kind kind) {
  return kind == Parameter::Kind::kChoice || kind == Parameter::Kind::kConstant;
}

std::optional<double> written_number(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

struct Written {
  std::string name;
  std::string kind{};
  std::vector<Value> arguments{};
};

// Returns an error such as "lr: `loguniform:0:1`: ...". If the parameter comes from a file, it is still shown
// in the form of the flag.
std::unexpected<Error> wrong_parameter(const Written& written, std::string_view what) {
  std::string text = written.kind;
  for (const Value& argument : written.arguments) text += ":" + text_of(argument);
  return failure(ErrorCode::kInvalidArgument, "{}: `{}`: {}", written.name, one_line(text),
                 one_line(std::string(what)));
}

std::optional<std::string> fault_of_name(const Space& before, std::string_view name) {
  const std::string shown = one_line(std::string(name));
  if (!is_identifier(name)) {
    return fmt::format(
        "`{}` cannot be a parameter's name: use letters, digits and _, not beginning with a digit", shown);
  }
  if (Constraint::is_reserved(name)) {
    return fmt::format("`{}` cannot be a parameter's name: it has a meaning in constraints", shown);
  }
  if (parameter_named(before, name) != nullptr) {
    return fmt::format("{} is there twice: each parameter has a name of its own", shown);
  }
  const auto same = std::ranges::find(before.parameters, variable_of(name),
                                      [](const Parameter& each) { return variable_of(each.name); });
  if (same != before.parameters.end()) {
    return fmt::format("{} and {} have the same variable, {}: give one of them another name", same->name,
                       shown, variable_of(name));
  }
  return std::nullopt;
}

std::optional<std::string> fault_of_choices(const std::vector<Value>& choices) {
  // The trial gets its values as texts. It cannot distinguish the number 1 from the word "1". So the texts
  // are compared.
  std::set<std::string> texts;
  for (const Value& value : choices) {
    const auto [text, is_new] = texts.insert(text_of(value));
    if (!is_new) return fmt::format("the value {} is there twice", *text);
    if (!is_utf8(*text) || text->contains('\0')) return "a value must be UTF-8 text without NUL bytes";
  }
  return std::nullopt;
}

std::optional<std::string> fault_of_step(const Parameter& parameter) {
  const double width = parameter.high - parameter.low;
  if (!(parameter.step > 0)) return fmt::format("the step must be above 0, not {}", parameter.step);
  if (parameter.step > width) {
    return fmt::format("the step {} is wider than the range: it must be at most {}", parameter.step, width);
  }
  if (width / parameter.step > kMostExact)
    return fmt::format("the step {} is too small for the range", parameter.step);
  return std::nullopt;
}

// Returns why no value of the parameter can be drawn. Returns nullopt if one can.
std::optional<std::string> fault_of(const Parameter& parameter) {
  const auto& [low, high] = std::tie(parameter.low, parameter.high);
  if (has_listed_values(parameter.kind)) return fault_of_choices(parameter.choices);
  if (parameter.kind == Parameter::Kind::kNormal) {
    return high > 0 ? std::nullopt
                    : std::optional(fmt::format("the standard deviation must be above 0, not {}", high));
  }
  if (low > high) return fmt::format("low {} is above high {}: swap them", low, high);
  if (low == high) return fmt::format("the range is empty: for a single value write constant:{}", low);
  const bool is_logarithmic =
      parameter.kind == Parameter::Kind::kLogUniform || parameter.kind == Parameter::Kind::kIntLog;
  if (is_logarithmic && low <= 0) {
    return fmt::format("low must be above 0 for a logarithmic range, not {}", low);
  }
  if (has_whole_values(parameter.kind)) {
    for (const double end : {low, high}) {
      if (end != std::floor(end)) return fmt::format("{} is not a whole number", end);
      if (std::abs(end) > kMostExact) return fmt::format("{} is beyond 2^53", end);
    }
  }
  return parameter.kind == Parameter::Kind::kQUniform ? fault_of_step(parameter) : std::nullopt;
}

Expected<Parameter> parameter_of(const Written& written) {
  const auto* form = std::ranges::find(kKindForms, written.kind, &KindForm::name);
  if (form == kKindForms.end()) {
    std::array<std::string_view, kKindForms.size()> names;
    std::ranges::transform(kKindForms, names.begin(), &KindForm::name);
    const auto meant = nearest(written.kind, names);
    return wrong_parameter(written,
                           fmt::format("unknown kind {}: {}", written.kind.empty() ? "``" : written.kind,
                                       meant ? fmt::format("did you mean {}?", *meant)
                                             : fmt::format("use one of {}; a fixed value is constant:VALUE",
                                                           fmt::join(names, ", "))));
  }
  Parameter parameter{.name = written.name, .kind = form->kind};
  const std::size_t count = written.arguments.size();
  if (form->arguments == 0 ? count == 0 : count != form->arguments) {
    return wrong_parameter(written, fmt::format("expected {}", form->form));
  }
  if (has_listed_values(form->kind)) {
    parameter.choices = written.arguments;
  } else {
    const std::array<double*, 3> places = {&parameter.low, &parameter.high, &parameter.step};
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = written_number(written.arguments[i]);
      if (!number)
        return wrong_parameter(written, fmt::format("`{}` is not a number", text_of(written.arguments[i])));
      *places[i] = *number;
    }
  }
  if (const auto fault = fault_of(parameter)) return wrong_parameter(written, *fault);
  return parameter;
}

// ---- Flags ----

// Splits the text at separators that have no backslash before them.
std::vector<std::string_view> split_unescaped(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_escape =
        text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == ',' || text[at + 1] == ':');
    if (is_escape) {
      ++at;
    } else if (text[at] == separator) {
      parts.push_back(text.substr(begin, at - begin));
      begin = at + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string without_escapes(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_escape =
        text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == ',' || text[at + 1] == ':');
    if (is_escape) ++at;
    result += text[at];
  }
  return result;
}

// KIND[:ARGUMENT]...
Expected<Parameter> parameter_from_text(std::string_view name, std::string_view text) {
  const auto parts = split_unescaped(text, ':');
  Written written{.name = std::string(name), .kind = without_escapes(parts[0])};
  bool has_empty = false;
  for (const std::string_view part : parts | std::views::drop(1)) {
    has_empty = has_empty || part.empty();
    written.arguments.push_back(value_of(without_escapes(part)));
  }
  if (has_empty) return wrong_parameter(written, "a value between two colons is empty");
  return parameter_of(written);
}

}  // namespace

Expected<Space> parse_space(std::string_view text) {
  Space space;
  for (const std::string_view item : split_unescaped(text, ',')) {
    const std::size_t equals = item.find('=');
    if (equals == item.npos) {
      return failure(
          ErrorCode::kInvalidArgument,
          "`{}`: expected NAME=KIND:ARGUMENT..., such as {}; a comma inside a value is written \\,",
          one_line(std::string(item)), kFlagExample);
    }
    const std::string_view name = item.substr(0, equals);
    if (const auto fault = fault_of_name(space, name))
      return failure(ErrorCode::kInvalidArgument, "{}", *fault);
    auto parameter = parameter_from_text(name, item.substr(equals + 1));
    if (!parameter) return std::unexpected(std::move(parameter).error());
    space.parameters.push_back(*std::move(parameter));
  }
  return space;
}

// ---- JSON ----

namespace {

using nlohmann::ordered_json;

std::string shown_json(const ordered_json& json) {
  const std::string text = json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  constexpr std::size_t kMost = 60;
  return text.size() <= kMost ? text : std::string(beginning_of(text, kMost)) + "...";
}

// Returns the values of a list. A single value counts as a list. Returns nullopt if something in it is not a
// number, a word or a boolean.
std::optional<std::vector<Value>> values_from(const ordered_json& json) {
  std::vector<Value> values;
  const ordered_json list = json.is_array() ? json : ordered_json::array({json});
  for (const ordered_json& member : list) {
    auto value = value_from_json(member);
    if (!value) return std::nullopt;
    values.push_back(*std::move(value));
  }
  return values;
}

// Reads a parameter in the form {"KIND": [ARGUMENT, ...]}. The object may have the member "when" in addition.
Expected<Parameter> parameter_from_object(const std::string& name, const ordered_json& json) {
  Written written{.name = name};
  std::size_t kinds = 0;
  for (const auto& [key, member] : json.items()) {
    if (key == "when") continue;
    if (json.size() > 1 && !is_kind(key))
      return failure(ErrorCode::kInvalidArgument,
                     "{}: {}: expected a kind such as uniform, or `when` for a condition", name,
                     one_line(key));
    ++kinds;
    written.kind = key;
    auto values = values_from(member);
    if (!values) {
      return failure(ErrorCode::kInvalidArgument, "{}: {}: {}: expected numbers, words, true or false", name,
                     one_line(key), shown_json(member));
    }
    written.arguments = *std::move(values);
  }
  if (kinds != 1) {
    return failure(ErrorCode::kInvalidArgument, "{}: {}: expected one kind, such as {{\"uniform\": [0, 1]}}",
                   name, shown_json(json));
  }
  return parameter_of(written);
}

Expected<Parameter> parameter_from_json(const std::string& name, const ordered_json& json) {
  if (json.is_object()) return parameter_from_object(name, json);
  if (json.is_string()) {
    const std::string& text = json.get_ref<const std::string&>();
    if (text.contains(':') || is_kind(text)) {
      return parameter_from_text(name, text);
    }
  }
  // A null is an empty place of the file rather than None.
  const auto is_wrong = [](const ordered_json& member) {
    return member.is_null() || !value_from_json(member);
  };
  if (!json.is_array() && is_wrong(json))
    return failure(
        ErrorCode::kInvalidArgument,
        "{}: {}: expected a text such as uniform:0:1, an object such as {{\"uniform\": [0, 1]}}, or a list of values",
        name, shown_json(json));
  const ordered_json list = json.is_array() ? json : ordered_json::array({json});
  if (const auto wrong = std::ranges::find_if(list, is_wrong); wrong != list.end())
    return failure(ErrorCode::kInvalidArgument,
                   "{}: {}: {} is not a value: write numbers, words, true or false{}", name, shown_json(json),
                   shown_json(*wrong), wrong->is_null() ? "; \"null\" in quotes is a word" : "");
  return parameter_of({name, json.is_array() ? "choice" : "constant", *values_from(list)});
}

// Returns `value` in the form in which the parameter has it. For example, 1.0 becomes 1 if 1 is a choice.
// Returns nullopt if the parameter cannot have this value.
std::optional<Value> own_value(const Parameter& parameter, const Value& value) {
  const auto number = written_number(value);
  if (has_whole_values(parameter.kind)) {
    const bool fits =
        number && *number == std::floor(*number) && *number >= parameter.low && *number <= parameter.high;
    return fits ? std::optional<Value>(static_cast<std::int64_t>(*number)) : std::nullopt;
  }
  for (const Value& choice : parameter.choices) {
    if (choice == value || (number && written_number(choice) == number)) return choice;
  }
  return std::nullopt;
}

struct ConditionPlace {
  const Space& before;  // the parameters before its own
  const ordered_json& all;
  const std::string& name;
};

Expected<Condition> condition_from(const ConditionPlace& place, const ordered_json& when) {
  const auto refused = [&](std::string_view what) {
    return failure(ErrorCode::kInvalidArgument, "{}: when {}: {}", place.name, shown_json(when), what);
  };
  if (!when.is_object() || when.size() != 1) {
    return refused("expected one parameter and its values, such as {\"optimizer\": \"sgd\"}");
  }
  Condition condition{.of = when.begin().key(), .values = {}};
  const Parameter* of = parameter_named(place.before, condition.of);
  if (condition.of == place.name) return refused("a parameter cannot depend on itself");
  if (of == nullptr) {
    if (place.all.contains(condition.of)) {
      return refused(fmt::format("{} must be written before {}", condition.of, place.name));
    }
    return refused(unknown_parameter(place.before, condition.of));
  }
  if (!has_whole_values(of->kind) && !has_listed_values(of->kind)) {
    return refused(
        fmt::format("{} is a real number: a condition needs a choice, constant, int or int-log", of->name));
  }
  const auto values = values_from(when.begin().value());
  if (!values || values->empty()) return refused("expected a value or a list of values");
  for (const Value& value : *values) {
    const auto own = own_value(*of, value);
    if (!own)
      return refused(fmt::format("{} never has the value {}", of->name, shown_json(value_as_json(value))));
    condition.values.push_back(*own);
  }
  return condition;
}

std::optional<Error> read_constraints(Space& space, const ordered_json& texts) {
  const auto refused = [](std::string message) {
    return Error(ErrorCode::kInvalidArgument, std::move(message));
  };
  if (!texts.is_array())
    return refused("constraints: expected a list of texts, such as [\"units * layers <= 512\"]");
  for (const ordered_json& text : texts) {
    if (!text.is_string())
      return refused(
          fmt::format("constraints: {}: expected a text, such as \"units <= 512\"", shown_json(text)));
    auto constraint = Constraint::parse(text.get<std::string>());
    if (!constraint) return std::move(constraint).error().within("constraints");
    for (const std::string& name : constraint->names()) {
      if (parameter_named(space, name) != nullptr) continue;
      return refused(
          fmt::format("constraints: `{}`: {}", one_line(constraint->text()), unknown_parameter(space, name)));
    }
    space.constraints.push_back(*std::move(constraint));
  }
  return std::nullopt;
}

// If the parameter has whole values, writes 64 and not 64.0.
ordered_json end_as_json(const Parameter& parameter, double end) {
  return has_whole_values(parameter.kind) ? ordered_json(static_cast<std::int64_t>(end)) : ordered_json(end);
}

ordered_json json_list_of(const std::vector<Value>& values) {
  auto list = ordered_json::array();
  for (const Value& value : values) list.push_back(value_as_json(value));
  return list;
}

ordered_json parameter_as_json(const Parameter& parameter) {
  auto arguments = ordered_json::array();
  if (has_listed_values(parameter.kind)) {
    arguments = json_list_of(parameter.choices);
  } else {
    arguments = {end_as_json(parameter, parameter.low), end_as_json(parameter, parameter.high)};
    if (parameter.kind == Parameter::Kind::kQUniform) arguments.push_back(parameter.step);
  }
  auto json = ordered_json::object();
  json[std::string(form_of(parameter.kind).name)] = std::move(arguments);
  if (parameter.when) json["when"][parameter.when->of] = json_list_of(parameter.when->values);
  return json;
}

}  // namespace

Expected<Space> space_from_json(const ordered_json& file) {
  if (!file.is_object() || !file.contains("space") || !file["space"].is_object() || file["space"].empty()) {
    return failure(ErrorCode::kInvalidArgument,
                   "space: expected an object of parameters, such as {{\"lr\": \"loguniform:1e-5:1e-1\"}}");
  }
  Space space;
  const ordered_json& all = file["space"];
  for (const auto& [name, json] : all.items()) {
    if (const auto fault = fault_of_name(space, name))
      return failure(ErrorCode::kInvalidArgument, "space: {}", *fault);
    auto parameter = parameter_from_json(name, json);
    if (!parameter) return failure_within("space", std::move(parameter));
    if (json.is_object() && json.contains("when")) {
      auto condition = condition_from({space, all, name}, json["when"]);
      if (!condition) return failure_within("space", std::move(condition));
      parameter->when = *std::move(condition);
    }
    space.parameters.push_back(*std::move(parameter));
  }
  if (file.contains("constraints")) {
    if (auto error = read_constraints(space, file["constraints"])) return std::unexpected(*std::move(error));
  }
  return space;
}

ordered_json space_as_json(const Space& space) {
  auto json = ordered_json::object();
  json["space"] = ordered_json::object();
  for (const Parameter& parameter : space.parameters)
    json["space"][parameter.name] = parameter_as_json(parameter);
  if (space.constraints.empty()) return json;
  json["constraints"] = ordered_json::array();
  for (const Constraint& constraint : space.constraints) json["constraints"].push_back(constraint.text());
  return json;
}

}  // namespace muster::launcher::sweep
