#include "launcher/io/sweep/optuna.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "common/base/file.h"
#include "common/base/text.h"
#include "launcher/io/sweep/optuna_format.h"

namespace muster::launcher::sweep {

namespace {

using nlohmann::ordered_json;

// This marks a word that Python reads as a number, but JSON does not know. No text contains the mark, because
// one_line() removes it.
constexpr char kMark = '\x01';

ordered_json number_json(double number) {
  if (std::isfinite(number)) return number;
  return kMark + std::string(std::isnan(number) ? optuna::kNaN
                             : number > 0       ? optuna::kInfinity
                                                : optuna::kMinusInfinity);
}

std::string line_of(const ordered_json& record) {
  std::string line = record.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
  for (const char* word : {optuna::kNaN, optuna::kInfinity, optuna::kMinusInfinity}) {
    const std::string marked = fmt::format("\"\\u0001{}\"", word);
    for (std::size_t at = line.find(marked); at != std::string::npos; at = line.find(marked, at))
      line.replace(at, marked.size(), word);
  }
  return line + "\n";
}

ordered_json record_of(optuna::Operation operation) {
  return {{"op_code", static_cast<int>(operation)}, {"worker_id", "muster"}};
}

// As datetime.isoformat() writes it.
std::string iso_time(double unix_seconds) {
  using std::chrono::floor, std::chrono::days;
  const std::chrono::sys_time time{
      std::chrono::microseconds(static_cast<std::int64_t>(std::llround(unix_seconds * 1e6)))};
  const std::chrono::year_month_day date(floor<days>(time));
  const std::chrono::hh_mm_ss clock(time - floor<days>(time));
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}+00:00", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

ordered_json distribution(const char* name, ordered_json attributes) {
  return {{"name", name}, {"attributes", std::move(attributes)}};
}

ordered_json real_range(double low, double high, bool logarithmic, const ordered_json& step) {
  return distribution("FloatDistribution",
                      {{"step", step}, {"low", low}, {"high", high}, {"log", logarithmic}});
}

ordered_json whole_range(const Parameter& parameter, bool logarithmic) {
  return distribution("IntDistribution", {{"log", logarithmic},
                                          {"step", 1},
                                          {"low", static_cast<std::int64_t>(parameter.low)},
                                          {"high", static_cast<std::int64_t>(parameter.high)}});
}

// Returns the largest value of the range that is a whole number of steps above its beginning. Optuna warns
// about any other end of a range. Optuna checks this with decimal numbers, so the result is rounded to 12
// digits.
double last_step(const Parameter& parameter) {
  constexpr double kRounding = 1e-9;
  const double count = std::floor((parameter.high - parameter.low) / parameter.step + kRounding);
  const double last = parameter.low + count * parameter.step;
  if (std::abs(last - parameter.high) < kRounding * parameter.step) return parameter.high;
  return parse_number<double>(fmt::format("{:.12g}", last)).value_or(last);
}

ordered_json distribution_of(const Parameter& parameter) {
  using enum Parameter::Kind;
  switch (parameter.kind) {
    case kUniform: return real_range(parameter.low, parameter.high, false, nullptr);
    case kLogUniform: return real_range(parameter.low, parameter.high, true, nullptr);
    case kQUniform: return real_range(parameter.low, last_step(parameter), false, parameter.step);
    case kInt: return whole_range(parameter, false);
    case kIntLog: return whole_range(parameter, true);
    case kNormal: {
      const double reach = 10 * parameter.high;
      return real_range(parameter.low - reach, parameter.low + reach, false, nullptr);
    }
    case kChoice:
    case kConstant: break;
  }
  ordered_json choices = ordered_json::array();
  for (const Value& choice : parameter.choices) choices.push_back(value_as_json(choice));
  return distribution("CategoricalDistribution", {{"choices", std::move(choices)}});
}

// Returns the value in Optuna's internal form. For a choice, this is the number of the choice.
double internal_of(const Parameter& parameter, const Value& value) {
  if (parameter.kind == Parameter::Kind::kChoice || parameter.kind == Parameter::Kind::kConstant)
    return static_cast<double>(std::ranges::find(parameter.choices, value) - parameter.choices.begin());
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  const auto* real = std::get_if<double>(&value);
  return real == nullptr ? 0 : *real;
}

// Returns nullopt if an objective has no value that Optuna accepts as a result.
std::optional<std::vector<double>> results_of(const Trial& trial, const std::vector<Objective>& objectives) {
  std::vector<double> results;
  for (const Objective& objective : objectives) {
    const auto value = trial.newest(objective.metric);
    if (!value || std::isnan(*value)) return std::nullopt;
    results.push_back(*value);
  }
  return results;
}

optuna::State state_of(const Trial& trial, bool has_results) {
  switch (trial.state) {
    case TrialState::kWaiting: return optuna::kWaiting;
    case TrialState::kRunning: return optuna::kRunning;
    case TrialState::kFinished: return has_results ? optuna::kComplete : optuna::kFail;
    case TrialState::kPaused:
    case TrialState::kStopped: return optuna::kPruned;
    case TrialState::kInfeasible:
    case TrialState::kFailed: return optuna::kFail;
  }
  return optuna::kFail;
}

bool reads_back(TrialState state, optuna::State as) {
  return !(state == TrialState::kPaused || state == TrialState::kInfeasible ||
           (state == TrialState::kFinished && as == optuna::kFail));
}

void add_results(ordered_json& record, const std::optional<std::vector<double>>& results) {
  record["value"] = results && results->size() == 1 ? number_json(results->front()) : ordered_json(nullptr);
  record["values"] = nullptr;
  if (!results || results->size() == 1) return;
  record["values"] = ordered_json::array();
  for (const double result : *results) record["values"].push_back(number_json(result));
}

void add_point(ordered_json& record, const Space& space, const Point& point) {
  record["distributions"] = ordered_json::object();
  record["params"] = ordered_json::object();
  for (const Parameter& parameter : space.parameters) {
    const auto value = point.find(parameter.name);
    if (value == point.end()) continue;
    record["distributions"][parameter.name] = distribution_of(parameter).dump();
    record["params"][parameter.name] = internal_of(parameter, value->second);
  }
}

void add_attributes(ordered_json& record, const OptunaStudy& study, const Trial& trial, optuna::State state) {
  ordered_json& attributes = record["user_attrs"] = ordered_json::object();
  if (!reads_back(trial.state, state)) attributes[optuna::kState] = name_of(trial.state);
  if (!trial.text.empty()) attributes[optuna::kWhy] = one_line(trial.text);
  for (const auto& [metric, measured] : trial.measured) {
    if (std::ranges::find(study.objectives, metric, &Objective::metric) == study.objectives.end())
      attributes[one_line(metric)] = number_json(measured.back().value);
  }
  record["system_attrs"] = ordered_json::object();
}

ordered_json record_of(const OptunaStudy& study, const Trial& trial) {
  const auto results = results_of(trial, study.objectives);
  const optuna::State state = state_of(trial, results.has_value());
  const bool has_ended = state != optuna::kWaiting && state != optuna::kRunning;
  ordered_json record = record_of(optuna::kCreateTrial);
  record["study_id"] = 0;
  record["datetime_start"] = state == optuna::kWaiting
                                 ? ordered_json(nullptr)
                                 : ordered_json(iso_time(study.began_unix + trial.began_at));
  record["state"] = static_cast<int>(state);
  const bool shows_results = state == optuna::kComplete || state == optuna::kPruned;
  add_results(record, shows_results ? results : std::nullopt);
  if (has_ended) record["datetime_complete"] = iso_time(study.began_unix + trial.ended_at);
  add_point(record, study.space, trial.point);
  add_attributes(record, study, trial, state);
  record["intermediate_values"] = ordered_json::object();
  const auto measured = trial.measured.find(study.objectives.front().metric);
  if (measured == trial.measured.end()) return record;
  for (const Measurement& each : measured->second)
    record["intermediate_values"][std::to_string(each.step)] = number_json(each.value);
  return record;
}

}  // namespace

std::string as_optuna_journal(const OptunaStudy& study, const std::vector<Trial>& trials) {
  ordered_json created = record_of(optuna::kCreateStudy);
  created["study_name"] = study.name;
  created["directions"] = ordered_json::array();
  ordered_json names = ordered_json::array();
  for (const Objective& objective : study.objectives) {
    created["directions"].push_back(
        static_cast<int>(objective.mode == Mode::kMin ? optuna::kMinimize : optuna::kMaximize));
    names.push_back(objective.metric);
  }
  ordered_json named = record_of(optuna::kSetStudySystemAttribute);
  named["study_id"] = 0;
  named["system_attr"] = {{optuna::kMetricNames, std::move(names)}};
  ordered_json spaced = record_of(optuna::kSetStudyUserAttribute);
  spaced["study_id"] = 0;
  spaced["user_attr"] = {{optuna::kSpace, space_as_json(study.space)}};
  std::string text = line_of(created) + line_of(named) + line_of(spaced);
  for (const Trial& trial : trials) text += line_of(record_of(study, trial));
  return text;
}

Status write_optuna_journal(const std::string& path, const OptunaStudy& study,
                            const std::vector<Trial>& trials) {
  const Status written = create_file_exclusively(path, as_optuna_journal(study, trials));
  if (!written && written.error().code() == ErrorCode::kFenced)
    return failure(ErrorCode::kInvalidArgument, "{} exists already: choose another file", path);
  return written;
}

}  // namespace muster::launcher::sweep
