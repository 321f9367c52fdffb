#include "launcher/core/sweep/sweep_options.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "common/base/text.h"
#include "common/wire/metric_name.h"
#include "launcher/core/settings/setting_reader.h"
#include "launcher/core/sweep/space/placeholders.h"

namespace muster::launcher::sweep {

namespace {

constexpr std::int32_t kMostTrialCount = 1'000'000;
constexpr std::int32_t kUsualTrials = 16;

Error wrong(const Setting& setting, std::string_view value, std::string_view what) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {} {}", setting.source, value, what)};
}

// Reads `NAME[:min|max],...`. --mode applies to names without :min or :max.
void read_objectives(SettingReader& reader, std::vector<Objective>& objectives) {
  Mode usual = Mode::kMin;
  reader.choice("mode", {{"min", Mode::kMin}, {"max", Mode::kMax}}, usual);
  const Setting* setting = reader.find("metric");
  if (setting == nullptr)
    return reader.fail({ErrorCode::kInvalidArgument,
                        "--metric: missing: name what the trials report, such as --metric val_loss"});
  for (const std::string_view part : split(setting->values.back(), ',')) {
    const std::size_t colon = part.rfind(':');
    const std::string_view mode = colon == std::string_view::npos ? "" : part.substr(colon + 1);
    const std::string name(part.substr(0, colon));
    if (!wire::is_metric_name(name) || (colon != std::string_view::npos && mode != "min" && mode != "max"))
      return reader.fail(wrong(*setting, part, "is not a metric: write NAME, NAME:min or NAME:max"));
    if (std::ranges::find(objectives, name, &Objective::metric) != objectives.end())
      return reader.fail(wrong(*setting, name, "is there twice: name it once"));
    objectives.push_back({name, mode.empty() ? usual : mode == "max" ? Mode::kMax : Mode::kMin});
  }
}

// Reads a whole number of steps. It can be written as 1e4, too, because people write it so.
void read_steps(SettingReader& reader, std::string_view name, std::int64_t& value) {
  const Setting* setting = reader.find(name);
  if (setting == nullptr) return;
  constexpr double kMost = 1e15;
  const auto number = parse_number<double>(setting->values.back());
  if (!number || *number < 1 || *number > kMost || *number != std::floor(*number))
    return reader.refuse(*setting, "is not a number of steps: give 1 or more");
  value = static_cast<std::int64_t>(*number);
}

void read_seed(SettingReader& reader, std::uint64_t& seed) {
  const Setting* setting = reader.find("seed");
  if (setting == nullptr) return;
  const auto number = parse_number<std::uint64_t>(setting->values.back());
  if (!number) return reader.refuse(*setting, "is not a seed: give a whole number, 0 or more");
  seed = *number;
}

void read_numbers(SettingReader& reader, SweepOptions& options) {
  using Search = SearchSettings::Kind;
  using Schedule = ScheduleSettings::Kind;
  reader.choice("search",
                {{"grid", Search::kGrid},
                 {"random", Search::kRandom},
                 {"sobol", Search::kSobol},
                 {"tpe", Search::kTpe},
                 {"bohb", Search::kBohb}},
                options.settings.search.kind);
  if (options.settings.search.kind == Search::kBohb) options.settings.schedule.kind = Schedule::kHyperband;
  ScheduleSettings& schedule = options.settings.schedule;
  reader.choice("scheduler",
                {{"none", Schedule::kNone},
                 {"asha", Schedule::kAsha},
                 {"asha-stop", Schedule::kAshaStop},
                 {"hyperband", Schedule::kHyperband},
                 {"median", Schedule::kMedian},
                 {"pbt", Schedule::kPbt}},
                schedule.kind);
  read_steps(reader, "max-steps", schedule.max_steps);
  read_steps(reader, "grace-steps", schedule.grace_steps);
  reader.count("eta", 2, "trials", schedule.eta);
  schedule.trials = 0;
  reader.count("trials", 1, "trials", schedule.trials);
  if (schedule.trials > kMostTrialCount)
    reader.refuse(*reader.find("trials"), fmt::format("is too many: give at most {}", kMostTrialCount));
  std::int32_t parallel = 0;
  reader.count("parallel", 0, "trials", parallel);
  if (reader.find("parallel") != nullptr) options.parallel = parallel;
  reader.count("nodes-per-trial", 1, "nodes", options.nodes_per_trial);
  reader.count("gpus-per-trial", 1, "workers", options.gpus_per_trial);
  reader.count("trial-retries", 0, "retries", options.retries);
  Duration budget{};
  reader.seconds("time-budget", /*may_be_zero=*/false, budget);
  if (reader.find("time-budget") != nullptr) options.time_budget = budget;
  Duration step{};
  reader.seconds("step-time", /*may_be_zero=*/false, step);
  if (reader.find("step-time") != nullptr) options.step_time = step;
  read_seed(reader, options.settings.search.seed);
  schedule.seed = options.settings.search.seed;
}

// Reads the space from --space and --constraint, or from the file.
Expected<Space> read_space(const Settings& settings, const nlohmann::ordered_json& file) {
  const auto given = settings.find("space");
  const auto constraints = settings.find("constraint");
  if (given != settings.end() && file.contains("space"))
    return failure(ErrorCode::kInvalidArgument, "{}: the file has a space too: give one of them",
                   given->second.source);
  if (given == settings.end() && !file.contains("space"))
    return failure(ErrorCode::kInvalidArgument,
                   "--space: missing: name the parameters, such as --space lr=loguniform:1e-5:1e-1");
  std::string text;
  if (given != settings.end()) {
    for (const std::string& part : given->second.values) text += (text.empty() ? "" : ",") + part;
  }
  auto space = given != settings.end() ? parse_space(text) : space_from_json(file);
  if (!space) return space;
  if (constraints == settings.end()) return space;
  for (const std::string& each : constraints->second.values) {
    auto constraint = Constraint::parse(each);
    if (!constraint) return failure_within(constraints->second.source, std::move(constraint));
    for (const std::string& name : constraint->names()) {
      if (std::ranges::find(space->parameters, name, &Parameter::name) == space->parameters.end())
        return failure(ErrorCode::kInvalidArgument, "{}: {}: there is no parameter {}",
                       constraints->second.source, each, name);
    }
    space->constraints.push_back(*std::move(constraint));
  }
  return space;
}

// Fills in the options that the user has left out. They follow from the other options. Then checks the
// result.
Status complete(SweepOptions& options) {
  SweepSettings& settings = options.settings;
  settings.schedule.objective = settings.search.objectives.front();
  if (settings.schedule.trials == 0) {
    const auto points = point_count(settings.space);
    const bool grid =
        settings.search.kind == SearchSettings::Kind::kGrid && points && *points <= kMostTrialCount;
    settings.schedule.trials = grid ? static_cast<std::int32_t>(*points) : kUsualTrials;
  }
  if (Status fits = check_search(settings.search, settings.space); !fits) return fits;
  if (settings.schedule.trials == 0) return check_has_point(settings.search, settings.space);  // an error
  if (Status fits = check_schedule(settings.schedule); !fits) return fits;
  for (const Rung& rung : preview(settings.schedule).rungs) settings.search.rungs.push_back(rung.steps);
  std::ranges::sort(settings.search.rungs);
  const auto same = std::ranges::unique(settings.search.rungs);
  settings.search.rungs.erase(same.begin(), same.end());
  return {};
}

}  // namespace

Expected<SweepOptions> make_sweep_options(const Settings& settings, const nlohmann::ordered_json& space,
                                          const std::vector<std::string>& program, const Surroundings& here) {
  SweepOptions options;
  SettingReader reader(settings);
  read_objectives(reader, options.settings.search.objectives);
  read_numbers(reader, options);
  std::string directory;
  reader.text("sweep-dir", directory);
  if (reader.error()) return std::unexpected(*reader.error());
  if (!directory.empty())
    options.directory = directory.starts_with('/') ? directory : here.working_directory + "/" + directory;
  auto read = read_space(settings, space);
  if (!read) return std::unexpected(read.error());
  options.settings.space = *std::move(read);
  if (Status done = complete(options); !done) return std::unexpected(done.error());
  // Checks that each placeholder is known. For this check, the program needs the values of some point, and
  // any point will do. This uses the point in the middle of the space.
  const Point point =
      point_at(options.settings.space, std::vector<double>(options.settings.space.parameters.size(), 0.5));
  auto filled_in = program_of(program, options.settings.space, point, {});
  if (!filled_in) return std::unexpected(filled_in.error());
  return options;
}

namespace {

// Returns whether the argument has the form `{NAME}` or `--flag={NAME}`, and NAME is a parameter that does
// not exist in this point.
bool is_only_inactive(std::string_view word, const Space& space, const Point& point) {
  if (word.starts_with('-')) word.remove_prefix(std::min(word.find('=') + 1, word.size()));
  if (!word.starts_with('{') || !word.ends_with('}')) return false;
  const std::string name(word.substr(1, word.size() - 2));
  const bool known = std::ranges::find(space.parameters, name, &Parameter::name) != space.parameters.end();
  return known && !point.contains(name);
}

}  // namespace

Expected<std::vector<std::string>> program_of(const std::vector<std::string>& program, const Space& space,
                                              const Point& point, const TrialPlace& place) {
  const std::map<std::string, std::string> more{{"trial", std::to_string(place.trial)},
                                                {"trial_dir", place.directory},
                                                {"seed", std::to_string(place.seed)}};
  std::vector<std::string> words;
  for (const std::string& word : program) {
    if (is_only_inactive(word, space, point)) {
      const bool has_flag = word.starts_with('{') && !words.empty() && words.back().starts_with('-');
      if (has_flag && words.size() > 1) words.pop_back();
      continue;
    }
    auto text = filled(word, space, point, more);
    if (!text) return std::unexpected(text.error());
    words.push_back(*std::move(text));
  }
  return words;
}

std::vector<std::string> parameters_outside(const std::vector<std::string>& program, const Space& space) {
  const std::map<std::string, std::string> more{{"trial", ""}, {"trial_dir", ""}, {"seed", ""}};
  std::vector<std::string> names;
  for (const Parameter& parameter : space.parameters) {
    const Point alone{{parameter.name, std::string("value")}};
    const bool is_inside = std::ranges::any_of(program, [&](const std::string& word) {
      return filled(word, space, alone, more).value_or("") != filled(word, space, {}, more).value_or("");
    });
    if (!is_inside) names.push_back(parameter.name);
  }
  return names;
}

std::map<std::string, std::string> variables_of(const Point& point, const TrialPlace& place) {
  std::map<std::string, std::string> variables{{"MUSTER_TRIAL", std::to_string(place.trial)},
                                               {"MUSTER_TRIAL_DIR", place.directory},
                                               {"MUSTER_TRIAL_SEED", std::to_string(place.seed)}};
  for (const auto& [name, value] : point) variables[variable_of(name)] = text_of(value);
  return variables;
}

// SplitMix64: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
std::uint64_t trial_seed(std::uint64_t sweep_seed, std::int32_t trial) {
  std::uint64_t state = sweep_seed + (static_cast<std::uint64_t>(trial) + 1) * 0x9E3779B97F4A7C15U;
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9U;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBU;
  return (state ^ (state >> 31)) >> 32;  // 32 bits, which every program takes as a seed
}

namespace {

std::string names_of(const std::vector<std::int32_t>& gpus) {
  std::string text;
  for (const std::int32_t gpu : gpus) text += fmt::format("{}{}", text.empty() ? "GPU " : ",", gpu);
  return text;
}

std::vector<Berth> berths_here(const SweepOptions& options, const Room& room) {
  const std::int32_t gpus_each = options.nodes_per_trial * options.gpus_per_trial;
  const std::int32_t most =
      room.gpu_count > 0 ? room.gpu_count / gpus_each : std::max(1, room.core_count / gpus_each);
  const std::int32_t count = options.parallel.value_or(most);
  std::vector<Berth> berths;
  for (std::int32_t slot = 0; slot < count; ++slot) {
    Berth berth{.place = fmt::format("slot {}", slot), .core_count = std::max(1, room.core_count / count)};
    if (room.gpu_count > 0) {
      berth.gpus.resize(static_cast<std::size_t>(gpus_each));
      std::iota(berth.gpus.begin(), berth.gpus.end(), slot * gpus_each);
      berth.place = names_of(berth.gpus);
    }
    berths.push_back(std::move(berth));
  }
  return berths;
}

// Returns the place of a trial on these hosts. It has the same GPUs on each of them.
Berth berth_on(const std::vector<Host>& hosts, std::span<const std::size_t> chosen, std::int32_t first_gpu,
               std::int32_t gpu_count) {
  Berth berth;
  for (const std::size_t at : chosen) {
    Host host = hosts[at];
    if (host.slots && berth.gpus.empty()) {  // the user said how many it has
      berth.gpus.resize(static_cast<std::size_t>(gpu_count));
      std::iota(berth.gpus.begin(), berth.gpus.end(), first_gpu);
    }
    host.slots = gpu_count;
    berth.place += (berth.place.empty() ? "" : ", ") + host.name;
    berth.hosts.push_back(std::move(host));
  }
  return berth;
}

// Several trials can share a host if it has enough slots for them. Hosts with fewer trials come first. All
// nodes of a job get the same CUDA_VISIBLE_DEVICES. So if a trial has several hosts, it has the same GPUs on
// each of them.
std::vector<Berth> berths_on(const SweepOptions& options, const std::vector<Host>& hosts) {
  const std::int32_t gpus = options.gpus_per_trial;
  const auto nodes = static_cast<std::size_t>(options.nodes_per_trial);
  std::vector<Berth> berths;
  std::vector<int> trials(hosts.size());
  for (std::int32_t first = 0;; first += gpus) {
    std::vector<std::size_t> order;
    for (std::size_t at = 0; at < hosts.size(); ++at) {
      if (hosts[at].slots.value_or(gpus) - first >= gpus) order.push_back(at);
    }
    if (order.size() < nodes) return berths;
    std::ranges::sort(order, {}, [&](std::size_t at) { return std::pair(trials[at], at); });
    for (std::span<std::size_t> rest = order; rest.size() >= nodes; rest = rest.subspan(nodes)) {
      if (options.parallel && std::cmp_equal(berths.size(), *options.parallel)) return berths;
      const auto chosen = rest.first(nodes);
      std::ranges::sort(chosen);
      for (const std::size_t at : chosen) ++trials[at];
      berths.push_back(berth_on(hosts, chosen, first, gpus));
    }
  }
}

}  // namespace

Expected<std::vector<Berth>> berths_of(const SweepOptions& options, const Room& room) {
  auto berths = room.hosts.empty() ? berths_here(options, room) : berths_on(options, room.hosts);
  const std::int32_t wanted = options.nodes_per_trial * options.gpus_per_trial;
  if (room.hosts.empty() && room.gpu_count > 0 && std::cmp_greater(berths.size() * wanted, room.gpu_count))
    return failure(ErrorCode::kInvalidArgument,
                   "--parallel: {} trials of {} GPUs need {}, and there are {}: give less", berths.size(),
                   wanted, berths.size() * wanted, room.gpu_count);
  if (berths.empty())
    return failure(
        ErrorCode::kInvalidArgument,
        "--gpus-per-trial: no trial of {} nodes with {} workers each fits here: give less, or more hosts",
        options.nodes_per_trial, options.gpus_per_trial);
  if (options.parallel && std::cmp_less(berths.size(), *options.parallel))
    return failure(ErrorCode::kInvalidArgument,
                   "--parallel: {} trials do not fit on these hosts: at most {} do", *options.parallel,
                   berths.size());
  return berths;
}

}  // namespace muster::launcher::sweep
