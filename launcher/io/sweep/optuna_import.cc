#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fmt/ranges.h>
#include <limits>

#include "common/base/file.h"
#include "common/base/text.h"
#include "common/wire/metric_name.h"
#include "launcher/io/sweep/optuna.h"
#include "launcher/io/sweep/optuna_distribution.h"
#include "launcher/io/sweep/optuna_format.h"

namespace muster::launcher::sweep {

namespace {

using nlohmann::ordered_json;
using optuna::Distribution;
using optuna::member;

// ---- Python's JSON ----

// JSON does not have some numbers, but Python's json module writes words for them. This puts these words into
// quotes.
std::string as_json(std::string_view line) {
  std::string text;
  bool in_string = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char letter = line[at];
    if (in_string && letter == '\\' && at + 1 < line.size()) {
      text += line.substr(at++, 2);
      continue;
    }
    if (letter == '"') in_string = !in_string;
    const std::string_view rest = line.substr(at);
    std::string_view word;
    for (const char* known : {optuna::kNaN, optuna::kInfinity, optuna::kMinusInfinity}) {
      if (!in_string && rest.starts_with(known)) word = known;
    }
    if (word.empty()) {
      text += letter;
    } else {
      text += fmt::format("\"{}\"", word);
      at += word.size() - 1;
    }
  }
  return text;
}

// Reads a number. If it is not one, throws ordered_json::exception.
double real_in(const ordered_json& json) {
  if (json == optuna::kNaN) return std::numeric_limits<double>::quiet_NaN();
  if (json == optuna::kInfinity) return std::numeric_limits<double>::infinity();
  if (json == optuna::kMinusInfinity) return -std::numeric_limits<double>::infinity();
  return json.get<double>();
}

std::optional<double> unix_time(const ordered_json& json) {
  if (!json.is_string()) return std::nullopt;
  const std::string text = json.get<std::string>();
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, end = 0;
  double second = 0;
  if (std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%lf%n", &year, &month, &day, &hour, &minute, &second, &end) <
      6)
    return std::nullopt;
  const std::chrono::sys_days date(std::chrono::year(year) / month / day);
  double time =
      static_cast<double>(date.time_since_epoch().count()) * 86400 + hour * 3600 + minute * 60 + second;
  int zone_hours = 0, zone_minutes = 0;
  const char* const zone = text.c_str() + end;
  if (std::sscanf(zone, "%3d:%2d", &zone_hours, &zone_minutes) == 2)
    time -= zone_hours * 3600 + (*zone == '-' ? -zone_minutes : zone_minutes) * 60;
  return time;
}

// ---- The journal ----

struct LoggedTrial {
  int state = optuna::kRunning;
  std::vector<std::pair<std::string, Distribution>> distributions{};
  Point point{};
  std::map<std::int64_t, double> intermediate{};
  std::vector<double> results{};
  ordered_json attributes = ordered_json::object();
  std::optional<double> start{};
  std::optional<double> complete{};
  bool is_over() const {
    return state == optuna::kComplete || state == optuna::kPruned || state == optuna::kFail;
  }
};

struct LoggedStudy {
  std::int64_t id = 0;
  std::string name{};
  std::vector<int> directions{};
  ordered_json user_attributes = ordered_json::object();
  ordered_json system_attributes = ordered_json::object();
  std::vector<std::size_t> trials{};  // ids
};

void read_results(LoggedTrial& trial, const ordered_json& values, const ordered_json& value) {
  if (values.is_array()) {
    trial.results.clear();
    for (const auto& each : values) trial.results.push_back(real_in(each));
  } else if (!value.is_null()) {
    trial.results = {real_in(value)};
  }
}

void set_parameter(LoggedTrial& trial, const std::string& name, const ordered_json& distribution,
                   const ordered_json& internal) {
  const Distribution read = optuna::distribution_in(distribution.get<std::string>());
  trial.point[name] = optuna::external_value(read, real_in(internal));
  std::erase_if(trial.distributions, [&](const auto& each) { return each.first == name; });
  trial.distributions.emplace_back(name, read);
}

// Applies operations in the same way as Optuna's JournalStorageReplayResult. Some operations come too late,
// or are for a study or a trial that does not exist. They have lost a race, and change nothing.
class Replay {
 public:
  // Throws ordered_json::exception if the record is not one of Optuna's.
  void apply(const ordered_json& record) {
    switch (record.at("op_code").get<int>()) {
      case optuna::kCreateStudy: return create_study(record);
      case optuna::kDeleteStudy:
        std::erase_if(studies_, [&](const LoggedStudy& each) { return each.id == record.at("study_id"); });
        return;
      case optuna::kSetStudyUserAttribute:
        if (LoggedStudy* study = study_of(record)) study->user_attributes.update(record.at("user_attr"));
        return;
      case optuna::kSetStudySystemAttribute:
        if (LoggedStudy* study = study_of(record)) study->system_attributes.update(record.at("system_attr"));
        return;
      case optuna::kCreateTrial: return create_trial(record);
      default:
        if (LoggedTrial* trial = open_trial_of(record)) change(*trial, record);
    }
  }
  const std::vector<LoggedStudy>& studies() const { return studies_; }
  const LoggedTrial& trial(std::size_t id) const { return trials_.at(id); }

 private:
  LoggedStudy* study_of(const ordered_json& record) {
    const auto found =
        std::ranges::find(studies_, record.at("study_id").get<std::int64_t>(), &LoggedStudy::id);
    return found == studies_.end() ? nullptr : &*found;
  }
  LoggedTrial* open_trial_of(const ordered_json& record) {
    const auto id = member(record, "trial_id");
    if (!id.is_number_unsigned() || id.get<std::size_t>() >= trials_.size()) return nullptr;
    LoggedTrial& trial = trials_[id.get<std::size_t>()];
    return trial.is_over() ? nullptr : &trial;
  }
  void create_study(const ordered_json& record) {
    const std::string name = record.at("study_name");
    if (std::ranges::find(studies_, name, &LoggedStudy::name) != studies_.end()) return;
    studies_.push_back({.id = next_study_++, .name = name, .directions = record.at("directions")});
  }
  void create_trial(const ordered_json& record) {
    LoggedStudy* const study = study_of(record);
    if (study == nullptr) return;
    LoggedTrial trial;
    trial.start = unix_time(member(record, "datetime_start"));
    trial.complete = unix_time(member(record, "datetime_complete"));
    if (record.contains("state")) trial.state = record["state"].get<int>();
    read_results(trial, member(record, "values"), member(record, "value"));
    for (const auto& [name, distribution] : member(record, "distributions").items())
      set_parameter(trial, name, distribution, record.at("params").at(name));
    for (const auto& [step, value] : member(record, "intermediate_values").items())
      trial.intermediate[parse_number<std::int64_t>(step).value_or(0)] = real_in(value);
    if (record.contains("user_attrs")) trial.attributes = record["user_attrs"];
    study->trials.push_back(trials_.size());
    trials_.push_back(std::move(trial));
  }
  static void change(LoggedTrial& trial, const ordered_json& record) {
    switch (record.at("op_code").get<int>()) {
      case optuna::kSetTrialParameter:
        return set_parameter(trial, record.at("param_name"), record.at("distribution"),
                             record.at("param_value_internal"));
      case optuna::kSetTrialState:
        trial.state = record.at("state").get<int>();
        if (trial.state == optuna::kRunning) trial.start = unix_time(member(record, "datetime_start"));
        if (trial.is_over()) trial.complete = unix_time(member(record, "datetime_complete"));
        return read_results(trial, member(record, "values"), nullptr);
      case optuna::kSetIntermediateValue:
        trial.intermediate[record.at("step").get<std::int64_t>()] = real_in(record.at("intermediate_value"));
        return;
      case optuna::kSetTrialUserAttribute: trial.attributes.update(record.at("user_attr")); return;
      default: return;
    }
  }

  std::vector<LoggedStudy> studies_;
  std::vector<LoggedTrial> trials_;
  std::int64_t next_study_ = 0;
};

bool applies(Replay& replay, std::string_view line) {
  try {
    replay.apply(ordered_json::parse(as_json(line)));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

struct Replayed {
  Replay replay;
  std::optional<std::size_t> unfinished_line;  // as in ImportedStudy
};

// Like Optuna, leaves out the last line if it is not complete.
Expected<Replayed> replayed(std::string_view text) {
  Replayed all;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (end != std::string_view::npos && applies(all.replay, line)) continue;
    if (!text.empty() || number == 1)
      return failure(ErrorCode::kInvalidArgument,
                     "line {} is not a record of Optuna's journal: give a file of its JournalFileBackend",
                     number);
    all.unfinished_line = number;
  }
  return all;
}

Expected<LoggedStudy> the_study(const Replay& replay, const std::string& name) {
  std::vector<std::string> names;
  for (const LoggedStudy& study : replay.studies()) {
    if (study.name == name || (name.empty() && replay.studies().size() == 1)) return study;
    names.push_back(one_line(study.name));
  }
  if (names.empty()) return failure(ErrorCode::kInvalidArgument, "has no study");
  if (name.empty())
    return failure(ErrorCode::kInvalidArgument, "has {} studies: name one of {}", names.size(),
                   fmt::join(names, ", "));
  return failure(ErrorCode::kInvalidArgument, "has no study {}, but {}", one_line(name),
                 fmt::join(names, ", "));
}

// ---- Our study ----

Expected<std::vector<Objective>> objectives_of(const LoggedStudy& study) {
  const ordered_json& names = member(study.system_attributes, optuna::kMetricNames);
  std::vector<Objective> objectives;
  for (std::size_t i = 0; i < study.directions.size(); ++i) {
    std::string name = study.directions.size() == 1 ? "value" : fmt::format("value_{}", i);
    if (names.is_array() && i < names.size() && names[i].is_string()) name = names[i];
    if (!wire::is_metric_name(name))
      return failure(ErrorCode::kInvalidArgument,
                     "metric `{}`: use letters, digits and _ / . -, beginning with a letter or _: "
                     "Optuna's study.set_metric_names() changes it",
                     one_line(name));
    objectives.push_back({name, study.directions[i] == optuna::kMaximize ? Mode::kMax : Mode::kMin});
  }
  return objectives;
}

Expected<Space> space_of(const Replay& replay, const LoggedStudy& study) {
  if (const ordered_json& ours = member(study.user_attributes, optuna::kSpace); ours.is_object())
    return space_from_json(ours);
  std::vector<std::pair<std::string, Distribution>> all;  // in the order of their first use
  for (const std::size_t id : study.trials) {
    for (const auto& [name, distribution] : replay.trial(id).distributions) {
      const auto found = std::ranges::find(all, name, &std::pair<std::string, Distribution>::first);
      if (found == all.end())
        all.emplace_back(name, distribution);
      else if (!optuna::widen(found->second, distribution))
        return failure(ErrorCode::kInvalidArgument, "parameter {}: two trials have different kinds of it",
                       one_line(name));
    }
  }
  Space space;
  for (const auto& [name, distribution] : all)
    space.parameters.push_back(optuna::parameter_of(name, distribution));
  return space;
}

// A trial that was paused counts as stopped: the file has no checkpoint from which the trial could go on.
RunEnd end_of(const LoggedTrial& trial) {
  const ordered_json& ours = member(trial.attributes, optuna::kState);
  if (ours == name_of(TrialState::kInfeasible)) return RunEnd::kInfeasible;
  if (ours == name_of(TrialState::kFinished) || trial.state == optuna::kComplete) return RunEnd::kFinished;
  return trial.state == optuna::kPruned ? RunEnd::kStopped : RunEnd::kFailed;
}

// Adds what trial `number` did.
void add_events(std::vector<Event>& events, std::int32_t number, const LoggedTrial& trial,
                const OptunaStudy& study) {
  constexpr const char* kReason = "imported from Optuna";
  events.emplace_back(TrialCreated{.trial = number, .point = trial.point, .bracket = 0, .reason = kReason});
  if (trial.state == optuna::kWaiting) return;
  events.emplace_back(RunBegan{.trial = number, .reason = kReason});
  const double begin = trial.start.value_or(study.began_unix) - study.began_unix;
  const double end = trial.complete ? *trial.complete - study.began_unix : begin;
  for (const auto& [step, value] : trial.intermediate)
    events.emplace_back(Reported{
        .trial = number, .step = step, .values = {{study.objectives.front().metric, value}}, .at = begin});
  const bool has_results = !trial.results.empty() && trial.results.size() == study.objectives.size();
  const std::int64_t last_step = trial.intermediate.empty() ? 0 : trial.intermediate.rbegin()->first;
  const bool is_known = has_results && trial.results.size() == 1 && !trial.intermediate.empty() &&
                        trial.intermediate.rbegin()->second == trial.results.front();
  if (has_results && !is_known) {
    Reported last{.trial = number, .step = last_step, .values = {}, .at = end};
    for (std::size_t i = 0; i < trial.results.size(); ++i)
      last.values[study.objectives[i].metric] = trial.results[i];
    events.emplace_back(std::move(last));
  }
  if (!trial.is_over()) return;
  const ordered_json& why = member(trial.attributes, optuna::kWhy);
  events.emplace_back(RunEnded{.trial = number,
                               .run = 0,
                               .end = end_of(trial),
                               .text = why.is_string() ? why.get<std::string>() : "",
                               .at = end});
}

}  // namespace

Expected<ImportedStudy> parse_optuna_journal(std::string_view text, const std::string& name) {
  const auto read = replayed(text);
  if (!read) return std::unexpected(read.error());
  const Replay& replay = read->replay;
  const auto logged = the_study(replay, name);
  if (!logged) return std::unexpected(logged.error());
  auto space = space_of(replay, *logged);
  if (!space) return std::unexpected(std::move(space).error());
  auto objectives = objectives_of(*logged);
  if (!objectives) return std::unexpected(std::move(objectives).error());
  ImportedStudy imported;
  imported.study = {logged->name, *std::move(objectives), *std::move(space), 0};
  imported.unfinished_line = read->unfinished_line;
  if (imported.study.objectives.empty())
    return failure(ErrorCode::kCorrupt, "study {} has no direction", one_line(logged->name));
  std::optional<double> began;
  for (const std::size_t id : logged->trials) {
    const auto& start = replay.trial(id).start;
    if (start) began = std::min(began.value_or(*start), *start);
  }
  imported.study.began_unix = began.value_or(0);
  for (std::size_t i = 0; i < logged->trials.size(); ++i)
    add_events(imported.events, static_cast<std::int32_t>(i), replay.trial(logged->trials[i]),
               imported.study);
  return imported;
}

Expected<ImportedStudy> read_optuna_journal(const std::string& path, const std::string& name) {
  constexpr std::uint64_t kLimitBytes = std::uint64_t{1} << 30;
  const auto text = read_regular_file(path, kLimitBytes);
  if (!text) return std::unexpected(text.error());
  auto imported = parse_optuna_journal(*text, name);
  if (!imported) return failure_within(path, std::move(imported));
  return imported;
}

}  // namespace muster::launcher::sweep
