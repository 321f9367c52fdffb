// `launch sweep ask`, `tell`, `import` and `export`: other programs run trials, or choose them.
#include <algorithm>
#include <filesystem>

#include "common/base/text.h"
#include "common/wire/metric_name.h"
#include "launcher/commands/sweep.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/sweep/optuna.h"
#include "launcher/io/sweep/tensorboard.h"
#include "launcher/io/sweep/trial_directory.h"
#include "launcher/io/view/job_directory.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher::sweep {

namespace {

namespace fs = std::filesystem;

// `ask` ends with one of these exit codes if it has no trial to offer. Scripts call it in a loop, and can
// tell the two cases apart.
constexpr int kExitWait = 1;
constexpr int kExitSweepOver = 3;

Error wrong(std::string_view word, std::string_view what) {
  return {ErrorCode::kInvalidArgument, fmt::format("sweep tell: {} {}", word, what)};
}

struct Told {
  std::int32_t trial = 0;
  std::map<std::string, double> values;
  std::optional<std::int64_t> step;
  std::optional<RunEnd> end;
};

// Reads the arguments of `tell`: `TRIAL NAME=VALUE...`, --step and --state.
Expected<Told> read_told(const CommandArguments& arguments, const History& history) {
  Told told;
  const std::string& word = arguments.operands.at(2);
  const auto number = trial_number(word, history);
  if (!number) return std::unexpected(wrong(word, "is not a trial of this sweep"));
  told.trial = *number;
  if (history.trials().at(static_cast<std::size_t>(*number)).state != TrialState::kRunning)
    return std::unexpected(wrong(word, "does not run: `launch sweep ask` starts it"));
  for (std::size_t i = 3; i < arguments.operands.size(); ++i) {
    const std::string& pair = arguments.operands[i];
    const std::size_t equals = pair.find('=');
    const auto value =
        parse_number<double>(equals == std::string::npos ? "" : std::string_view(pair).substr(equals + 1));
    if (!value || !wire::is_metric_name(pair.substr(0, equals)))
      return std::unexpected(wrong(pair, "is not a value: write NAME=NUMBER, such as loss=0.1"));
    told.values[pair.substr(0, equals)] = *value;
  }
  const auto step = arguments.count("step", "steps");
  if (!step) return std::unexpected(step.error());
  if (*step) told.step = static_cast<std::int64_t>(**step);
  if (!arguments.has("state")) return told;
  const std::string state = arguments.value("state");
  if (state == "finished") told.end = RunEnd::kFinished;
  if (state == "failed") told.end = RunEnd::kFailed;
  if (state == "infeasible") told.end = RunEnd::kInfeasible;
  if (!told.end)
    return failure(ErrorCode::kInvalidArgument, "--state: {} is none of finished, failed, infeasible", state);
  return told;
}

// Returns the directory of the sweep's checkpoints. It is in the directory that --checkpoint-dir names.
// Returns "" if that flag is not given.
std::string checkpoint_directory_of(const Definition& definition) {
  const auto setting = definition.settings.find("checkpoint-dir");
  if (setting == definition.settings.end()) return "";
  return (fs::path(definition.working_directory) / setting->second.values.back() / definition.id)
      .lexically_normal();
}

// The checkpoint from which a run continues: the trial that has it, and the step that this trial had got to.
struct GoesOn {
  std::int32_t trial = 0;
  std::int64_t step = 0;
};
std::optional<GoesOn> checkpoint_for(const StartRun& start, const History& history) {
  const Trial& trial = history.trials().at(static_cast<std::size_t>(start.trial));
  if (trial.counts_from < 0) return std::nullopt;
  if (trial.exploit_run == start.run) return GoesOn{start.exploited->from, start.exploited->step};
  return GoesOn{start.trial, trial.counts_from};
}

struct Asked {
  const StartRun& start;
  std::optional<GoesOn> from;
  std::string directory;
  std::string checkpoints;
};

nlohmann::ordered_json as_json(const Asked& asked) {
  nlohmann::ordered_json from = nullptr;
  if (asked.from) from = {{"trial", asked.from->trial}, {"step", asked.from->step}};
  return {{"trial", asked.start.trial},
          {"run", asked.start.run},
          {"params", point_as_json(asked.start.point)},
          {"until", asked.start.until},
          {"directory", asked.directory},
          {"checkpoints", asked.checkpoints},
          {"from", std::move(from)}};
}

// Returns a text such as "trial 3 lr=0.1". If the run is not the first one of its trial, a second line says
// from which checkpoint it continues.
std::string as_text(const Asked& asked) {
  std::string text = fmt::format("trial {}", asked.start.trial);
  for (const auto& [name, value] : asked.start.point) text += fmt::format(" {}={}", name, text_of(value));
  text += "\n";
  if (asked.start.run == 0) return text;
  text += fmt::format("run {} ", asked.start.run);
  if (!asked.from) return text + fmt::format("tries again in {}\n", asked.directory);
  text += asked.from->trial == asked.start.trial
              ? fmt::format("goes on from step {}", asked.from->step)
              : fmt::format("goes on from the newest checkpoint of trial {}, which had got to step {}",
                            asked.from->trial, asked.from->step);
  return text + fmt::format(", with the checkpoints in {}\n", asked.checkpoints);
}

// Answers an `ask` if there is no trial for it. The answer says that there may be one later, or that the
// sweep is over.
int answer_without_trial(const SweepCall& call, const History& history) {
  const bool over = history.running_count() == 0;
  const int exit_code = over ? kExitSweepOver : kExitWait;
  if (call.json)
    return print(nlohmann::ordered_json{{"trial", nullptr}, {"over", over}}.dump(2) + "\n", exit_code);
  const std::string text =
      over ? fmt::format("the sweep is over: {}", count_of(history.trials().size(), "trial"))
           : "no trial can start now: tell the results of those that run";
  return refuse({ErrorCode::kUnavailable, call.directory + ": " + text}, exit_code);
}

std::string word_of(const ReportDecision& decision) {
  return std::holds_alternative<Stop>(decision.what) ? "stop" : "pause";
}

// Prints a hint if none of the values belongs to a metric of this sweep, because the user may have mistyped
// its name. Values with other names are allowed, but the search does not see them.
void say_if_no_metric(const std::map<std::string, double>& values, std::span<const Objective> objectives) {
  if (values.empty()) return;
  std::string names;
  for (const auto& [name, value] : values) {
    if (std::ranges::find(objectives, name, &Objective::metric) != objectives.end()) return;
    names += (names.empty() ? "" : ", ") + name;
  }
  std::string metrics;
  for (const Objective& each : objectives) metrics += (metrics.empty() ? "" : " or ") + each.metric;
  say(fmt::format("{} {} not the metric {} of this sweep", names, values.size() == 1 ? "is" : "are",
                  metrics));
}

// Returns the definition of the sweep that is made of an imported study. It has as many trials as the study,
// and no program.
Definition definition_of(const ImportedStudy& imported, const SweepCall& call) {
  std::string metrics;
  for (const Objective& each : imported.study.objectives)
    metrics += fmt::format("{}{}:{}", metrics.empty() ? "" : ",", each.metric,
                           each.mode == Mode::kMin ? "min" : "max");
  const auto trials = std::ranges::count_if(
      imported.events, [](const Event& event) { return std::holds_alternative<TrialCreated>(event); });
  Settings settings = {{"metric", {"--metric", {metrics}}}, {"sweep-dir", {"--sweep-dir", {call.directory}}}};
  if (trials > 0) settings["trials"] = {"--trials", {std::to_string(trials)}};
  return {.id = make_job_id("sweep"),
          .working_directory = call.here.working_directory,
          .began_unix = imported.study.began_unix,
          .settings = std::move(settings),
          .program = {},
          .space = space_as_json(imported.study.space)};
}

}  // namespace

int sweep_ask(const SweepCall& call) {
  auto held = hold_sweep(call.directory, call.here);
  if (!held) return refuse(held.error(), kExitUsage);
  const SweepDecisions decisions = held->sweep.add_slot(0, "asked", age_of(held->definition, held->newest));
  const StartRun* start = nullptr;
  for (const SweepAction& action : decisions.actions) {
    if (const auto* each = std::get_if<StartRun>(&action)) start = each;
  }
  if (start == nullptr) return answer_without_trial(call, held->sweep.history());
  const std::string given = checkpoint_directory_of(held->definition);
  // Prepares the trial before the journal says that the run has begun. After a crash in between, the next
  // `ask` starts the same run.
  if (const Status made = prepare_trial(call.directory, given, *start); !made)
    return refuse(made.error(), kExitInternal);
  if (const Status kept = held->journal.add(decisions.events); !kept)
    return refuse(kept.error(), kExitInternal);
  const Asked asked{.start = *start,
                    .from = checkpoint_for(*start, held->sweep.history()),
                    .directory = trial_directory(call.directory, start->trial),
                    .checkpoints = checkpoints_of(call.directory, start->trial, given)};
  return print(call.json ? as_json(asked).dump(2) + "\n" : as_text(asked));
}

int sweep_tell(const SweepCall& call) {
  auto held = hold_sweep(call.directory, call.here);
  if (!held) return refuse(held.error(), kExitUsage);
  Sweep& sweep = held->sweep;
  const auto told = read_told(call.arguments, sweep.history());
  if (!told) return refuse(told.error(), kExitUsage);
  const Trial& trial = sweep.history().trials().at(static_cast<std::size_t>(told->trial));
  SweepDecisions all;
  if (!told->values.empty())
    all =
        sweep.on_found(told->trial, told->step.value_or(std::max<std::int64_t>(trial.reached_step(), 0) + 1),
                       told->values, age_of(held->definition, held->newest));
  const ReportDecision* const wish = sweep.wish_of(told->trial);
  const std::string answer = wish != nullptr ? word_of(*wish) : told->end ? "end" : "go on";
  const std::string reason = wish != nullptr ? wish->reason : "";
  if (wish != nullptr || told->end) {
    const SweepDecisions end = sweep.end_run(told->trial, told->end.value_or(RunEnd::kCancelled), "",
                                             age_of(held->definition, held->newest));
    all.events.insert(all.events.end(), end.events.begin(), end.events.end());
  }
  if (const Status kept = held->journal.add(all.events); !kept) return refuse(kept.error(), 1);
  say_if_no_metric(told->values, held->options.settings.search.objectives);
  if (call.json)
    return print(nlohmann::ordered_json{{"decision", answer}, {"reason", reason}}.dump(2) + "\n");
  return print(answer == "end" ? fmt::format("trial {} is {}\n", told->trial, name_of(trial.state))
                               : answer + (reason.empty() ? "" : ": " + reason) + "\n");
}

int sweep_export(const SweepCall& call, const SweepView& sweep) {
  const bool for_tensorboard = call.arguments.has("tensorboard");
  if (for_tensorboard == call.arguments.has("output"))
    return refuse({ErrorCode::kInvalidArgument,
                   "sweep export: say where to: `-o FILE` for Optuna, or `--tensorboard LOGDIR`"},
                  kExitUsage);
  const std::string word = call.arguments.value(for_tensorboard ? "tensorboard" : "output");
  const std::string path = (fs::path(call.here.working_directory) / word).string();
  const std::string& name = sweep.definition.id;
  const OptunaStudy study{.name = name,
                          .objectives = sweep.options.settings.search.objectives,
                          .space = sweep.options.settings.space,
                          .began_unix = sweep.definition.began_unix};
  const auto& trials = sweep.history.trials();
  const Status written =
      for_tensorboard ? write_tensorboard(path, sweep.history, sweep.events, sweep.definition.began_unix)
                      : write_optuna_journal(path, study, trials);
  if (!written) return refuse(written.error(), kExitUsage);
  if (call.json)
    return print(nlohmann::ordered_json{{"file", path}, {"study", name}, {"trials", trials.size()}}.dump(2) +
                 "\n");
  return print(fmt::format("{}: study {}, {}\n", path, name, count_of(trials.size(), "trial")));
}

int sweep_import(const SweepCall& call) {
  const std::string path = (fs::path(call.here.working_directory) / call.arguments.operands[2]).string();
  auto imported = read_optuna_journal(path, call.arguments.value("study"));
  if (!imported) return refuse(imported.error(), kExitUsage);
  const Definition definition = definition_of(*imported, call);
  // Checks the study before it creates the directory. If the study cannot be a sweep, no directory must be
  // left.
  auto options = make_sweep_options(definition.settings, definition.space, {}, call.here);
  if (!options) return refuse(std::move(options).error().within(path), kExitUsage);
  auto history = history_of(imported->events, options->retries);
  if (!history) return refuse(std::move(history).error().within(path), kExitUsage);
  const auto journal = Journal::create(call.directory, as_json(definition), imported->events);
  if (!journal) return refuse(journal.error(), kExitUsage);
  if (imported->unfinished_line)
    say(fmt::format("{} ends within a record: line {} is left out", path, *imported->unfinished_line));
  const std::size_t count = history->trials().size();
  if (call.json)
    return print(nlohmann::ordered_json{{"sweep_dir", call.directory}, {"trials", count}}.dump(2) + "\n");
  return print(
      fmt::format("{}: {} of study {}\n", call.directory, count_of(count, "trial"), imported->study.name));
}

}  // namespace muster::launcher::sweep
