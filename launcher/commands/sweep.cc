// `launch sweep`: searches hyperparameters, with trials that are jobs.
#include "launcher/commands/sweep.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fmt/ranges.h>
#include <thread>

#include "common/base/text.h"
#include "launcher/commands/live_table.h"
#include "launcher/core/settings/help.h"
#include "launcher/core/sweep/view/best.h"
#include "launcher/core/sweep/view/importance.h"
#include "launcher/core/sweep/view/pictures.h"
#include "launcher/core/sweep/view/table.h"
#include "launcher/core/text/nearest.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/sweep/controller_lock.h"
#include "launcher/io/sweep/trial_directory.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher::sweep {

namespace {

namespace fs = std::filesystem;

// Returns the seconds since the sweep began. If the sweep is not running, returns the time of its last event
// instead.
double age_of(const std::string& directory, const SweepView& sweep) {
  if (running_controller(directory) || is_run_by_others(sweep.definition, sweep.options))
    return unix_now() - sweep.definition.began_unix;
  double newest = 0;
  for (const Trial& trial : sweep.history.trials())
    newest = std::max({newest, trial.run_began_at, trial.ended_at});
  return newest;
}

std::string state_line(const std::string& directory, const SweepView& sweep) {
  const auto controller = running_controller(directory);
  // If trials still count as running but there is no controller, it was killed. The trials ended with it.
  const bool interrupted = !controller && sweep.history.running_count() > 0;
  std::string text =
      controller                                          ? fmt::format("running, pid {}", controller->pid)
      : is_run_by_others(sweep.definition, sweep.options) ? std::string("run by other programs")
      : interrupted ? fmt::format("interrupted: `launch sweep resume {}` goes on", as_shell_word(directory))
                    : std::string("not running");
  text += fmt::format("; {} of {}", sweep.history.trials().size(),
                      count_of(static_cast<std::size_t>(sweep.options.settings.schedule.trials), "trial"));
  return text + counts_of_states(sweep.history.trials()) + "\n";
}

std::string status_text(const std::string& directory, const SweepView& sweep, std::size_t width) {
  return state_line(directory, sweep) + trials_as_table(sweep.history.trials(),
                                                        sweep.options.settings.search.objectives,
                                                        {.now = age_of(directory, sweep), .width = width});
}

int status(const SweepCall& call, const SweepView& sweep) {
  if (call.json)
    return print(nlohmann::ordered_json{{"sweep_dir", call.directory},
                                        {"running", running_controller(call.directory).has_value()},
                                        {"trials", trials_as_json(sweep.history.trials())}}
                     .dump(2) +
                 "\n");
  const auto is_running = [&] { return running_controller(call.directory).has_value(); };
  if (terminal_columns() == 0 || call.arguments.has("once") || !is_running())
    return print(status_text(call.directory, sweep, terminal_columns()));
  show_live([&]() -> std::optional<std::string> {
    const auto now = view_sweep(call.directory, call.here);
    if (!now || !is_running()) return std::nullopt;
    return status_text(call.directory, *now, terminal_columns());
  });
  const auto last = view_sweep(call.directory, call.here);
  return last ? print(status_text(call.directory, *last, terminal_columns())) : refuse(last.error(), 1);
}

// "lr=0.1 units=32", as a line.
std::string parameters_of(const Trial& trial) {
  std::string text;
  for (const auto& [name, value] : trial.point)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, text_of(value));
  return text + "\n";
}

// Why no trial is the best one: "no trial has a value of loss", or which values there are and why they do not
// count.
std::string text_without_best(const History& history, const std::string& metric) {
  constexpr std::size_t kMostShown = 3;
  std::vector<std::string> all;
  for (const Trial& trial : history.trials()) {
    if (const auto value = trial.newest(metric))
      all.push_back(fmt::format("trial {} {}, {}={}", trial.number, name_of(trial.state), metric, *value));
  }
  if (all.empty()) return "no trial has a value of " + metric;
  const std::size_t shown = std::min(all.size(), kMostShown);
  const std::string more = all.size() == shown ? "" : fmt::format("; and {} more", all.size() - shown);
  all.resize(shown);
  return fmt::format("no trial has finished with a {} that counts: {}{}", metric, fmt::join(all, "; "), more);
}

// Returns the command line that trains with the trial's values. Returns "" if the sweep has no program. An
// imported sweep has none, and a sweep with --parallel 0 need not have one.
Expected<std::string> command_for(const SweepView& sweep, const Trial& trial, const std::string& directory) {
  const auto& [search, space] = std::tie(sweep.options.settings.search, sweep.options.settings.space);
  const TrialPlace place{
      .trial = trial.number, .directory = directory, .seed = trial_seed(search.seed, trial.number)};
  const auto& words = sweep.definition.program;
  auto program = training_command(words, space, trial.point, place);
  if (!program || program->empty()) return program;
  return launch_command(sweep.definition.settings, sweep.options) +
         variables_as_flags(words, space, trial.point, place) + " " + *program;
}

int best(const SweepCall& call, const SweepView& sweep) {
  const auto& objectives = sweep.options.settings.search.objectives;
  const auto numbers = best_trials(sweep.history, objectives);
  if (numbers.empty())
    return refuse({ErrorCode::kNotFound,
                   call.directory + ": " + text_without_best(sweep.history, objectives.front().metric)},
                  1);
  const std::size_t shown = objectives.size() > 1 ? numbers.size() : 1;
  std::string text;
  auto array = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < shown; ++i) {
    const Trial& trial = sweep.history.trials().at(static_cast<std::size_t>(numbers[i]));
    const std::string directory = trial_directory(call.directory, trial.number);
    const auto command = command_for(sweep, trial, directory);
    if (!command) return refuse(command.error(), 1);
    auto json = trial_as_json(trial);
    json["command"] = *command;
    json["directory"] = directory;
    array.push_back(std::move(json));
    text += fmt::format("trial {}:", trial.number);
    for (const Objective& each : objectives) {
      if (const auto value = judged_value(trial, each.metric))
        text += fmt::format(" {}={}", each.metric, *value);
    }
    text += fmt::format(" at step {}\n{}", trial.newest_step(),
                        command->empty() ? parameters_of(trial) : values_as_text(trial) + *command + "\n");
  }
  if (call.json) return print((objectives.size() > 1 ? array : array.front()).dump(2) + "\n");
  return print(text);
}

int show(const SweepCall& call, const SweepView& sweep) {
  const std::string& word = call.arguments.operands.at(1);
  const auto number = trial_number(word, sweep.history);
  const auto& trials = sweep.history.trials();
  if (!number)
    return refuse(
        {ErrorCode::kInvalidArgument,
         fmt::format("sweep show: {} is not a trial: {} has {}", word, call.directory,
                     trials.empty() ? "none yet" : fmt::format("trials 0 to {}", trials.size() - 1))},
        kExitUsage);
  const Trial& trial = trials.at(static_cast<std::size_t>(*number));
  const std::string directory = trial_directory(call.directory, *number);
  if (call.json) {
    auto json = trial_as_json(trial);
    json["directory"] = directory;
    return print(json.dump(2) + "\n");
  }
  return print(trial_as_text(trial, sweep.options.settings.search.objectives,
                             {.now = age_of(call.directory, sweep), .width = terminal_columns()}) +
               fmt::format("its jobs: launch ps --log-dir {}\n", as_shell_word(directory)));
}

constexpr Duration kCancelLimit = std::chrono::minutes(5);

Expected<Sweep> sweep_after(const SweepOptions& options, const std::vector<Event>& events) {
  Sweep sweep(options.settings, {options.retries});
  for (const Event& event : events) {
    if (const Status applied = sweep.replay(event); !applied) return std::unexpected(applied.error());
  }
  return sweep;
}

// Returns whether there is anything left to do for a controller.
Expected<bool> has_more(const std::string& directory, const Surroundings& here) {
  const auto view = view_sweep(directory, here);
  if (!view) return std::unexpected(view.error());
  if (view->history.running_count() > 0) return true;
  auto sweep = sweep_after(view->options, view->events);
  if (!sweep) return std::unexpected(std::move(sweep).error());
  (void)sweep->add_slot(0, "");
  return !sweep->is_over();
}

int cancel(const SweepCall& call, const SweepView&) {
  const auto controller = running_controller(call.directory);
  if (!controller) return print(call.directory + " is not running\n");
  if (kill(static_cast<pid_t>(controller->pid), SIGINT) != 0 && errno != ESRCH)
    return refuse(
        {ErrorCode::kPermission, fmt::format("cannot signal process {} on {}: {}", controller->pid,
                                             controller->host, std::generic_category().message(errno))},
        1);
  const TimePoint end = Clock::now() + kCancelLimit;
  while (running_controller(call.directory)) {
    if (Clock::now() > end)
      return refuse({ErrorCode::kTimedOut,
                     fmt::format("process {} has not ended the sweep after 5 minutes", controller->pid)},
                    1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const auto more = has_more(call.directory, call.here);
  if (!more) return refuse(more.error(), 1);
  return print(call.directory +
               (*more ? " is stopped; `launch sweep resume` goes on with it\n" : " had come to its end\n"));
}

int importance(const SweepCall& call, const SweepView& sweep) {
  const auto& settings = sweep.options.settings;
  const std::string& metric = settings.search.objectives.front().metric;
  const auto found = importances(settings.space, sweep.history, metric, settings.search.rungs);
  if (!found) return refuse(found.error(), 1);
  if (!call.json) return print(importances_as_text(*found, metric, terminal_columns()));
  auto array = nlohmann::ordered_json::array();
  for (const Importance& each : found->parameters)
    array.push_back({{"parameter", each.parameter}, {"share", each.share}, {"deviation", each.deviation}});
  return print(nlohmann::ordered_json{{"method", "fANOVA"},
                                      {"step", found->step ? nlohmann::ordered_json(*found->step) : nullptr},
                                      {"trials", found->trial_count},
                                      {"importances", std::move(array)}}
                   .dump(2) +
               "\n");
}

// Writes the pictures into the directory that -o names. If there is no -o, writes them into the directory of
// the sweep.
int plot(const SweepCall& call, const SweepView& sweep) {
  const auto& settings = sweep.options.settings;
  const std::string folder =
      call.arguments.has("output")
          ? (fs::path(call.here.working_directory) / call.arguments.value("output")).string()
          : call.directory;
  if (std::error_code error; !fs::is_directory(folder, error))
    return refuse({ErrorCode::kInvalidArgument,
                   fmt::format("{}: {} is not a directory: give one, for two pictures",
                               call.arguments.flags.at("output").spelling, call.arguments.value("output"))},
                  kExitUsage);
  const Objective& objective = settings.search.objectives.front();
  const std::pair<const char*, std::string> files[] = {
      {"parallel_coordinates.svg", parallel_coordinates(settings.space, sweep.history, objective)},
      {"best_value.svg", course_of_best(sweep.history, objective)}};
  std::string text;
  for (const auto& [name, picture] : files) {
    const std::string path = (fs::path(folder) / name).string();
    if (const Status written = write_file_durably(path, picture); !written) return refuse(written.error(), 1);
    text += path + "\n";
  }
  return print(text);
}

// The contents of a journal. Its events have not been applied yet.
struct Stored {
  Definition definition;
  SweepOptions options;
  std::vector<Event> events;
};

Expected<Stored> stored_in(const Journal& journal, const Surroundings& here) {
  const auto json = journal.definition();
  if (!json) return std::unexpected(json.error());
  auto definition = definition_from_json(*json);
  if (!definition) return std::unexpected(definition.error());
  auto options = make_sweep_options(definition->settings, definition->space, definition->program,
                                    surroundings_of(*definition, here));
  if (!options) return std::unexpected(options.error());
  auto events = journal.events();
  if (!events) return std::unexpected(events.error());
  return Stored{*std::move(definition), *std::move(options), *std::move(events)};
}

}  // namespace

nlohmann::ordered_json as_json(const Definition& definition) {
  auto settings = nlohmann::ordered_json::object();
  for (const auto& [name, setting] : definition.settings)
    settings[name] = {{"source", setting.source}, {"values", setting.values}};
  return {{"id", definition.id},
          {"working_directory", definition.working_directory},
          {"began_unix", definition.began_unix},
          {"program", definition.program},
          {"settings", std::move(settings)},
          {"space", definition.space}};
}

Expected<Definition> definition_from_json(const nlohmann::ordered_json& json) {
  try {
    Definition definition{.id = json.at("id"),
                          .working_directory = json.at("working_directory"),
                          .began_unix = json.at("began_unix"),
                          .settings = {},
                          .program = json.at("program"),
                          .space = json.at("space")};
    for (const auto& [name, setting] : json.at("settings").items())
      definition.settings[name] = {setting.at("source"), setting.at("values")};
    return definition;
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kCorrupt, "the sweep's definition cannot be read: {}", error.what());
  }
}

Surroundings surroundings_of(const Definition& definition, const Surroundings& here) {
  Surroundings there = here;
  there.working_directory = definition.working_directory;
  return there;
}

std::optional<std::int32_t> trial_number(const std::string& word, const History& history) {
  const auto number = parse_number<std::int32_t>(word);
  const bool known = number && *number >= 0 && std::cmp_less(*number, history.trials().size());
  return known ? number : std::nullopt;
}

Expected<History> history_of(const std::vector<Event>& events, std::int32_t retries) {
  History history({retries});
  for (const Event& event : events) {
    if (const Status applied = history.apply(event); !applied) return std::unexpected(applied.error());
  }
  return history;
}

Expected<SweepView> view_sweep(const std::string& directory, const Surroundings& here) {
  const auto journal = Journal::read(directory);
  if (!journal) return std::unexpected(journal.error());
  auto stored = stored_in(*journal, here);
  if (!stored) return std::unexpected(std::move(stored).error());
  auto history = history_of(stored->events, stored->options.retries);
  if (!history) return failure_within(directory, std::move(history));
  return SweepView{std::move(stored->definition), std::move(stored->options), std::move(stored->events),
                   *std::move(history)};
}

Expected<HeldSweep> hold_sweep(const std::string& directory, const Surroundings& here) {
  auto journal = Journal::open(directory);
  if (!journal) return std::unexpected(std::move(journal).error());
  auto stored = stored_in(*journal, here);
  if (!stored) return std::unexpected(std::move(stored).error());
  auto sweep = sweep_after(stored->options, stored->events);
  if (!sweep) return failure_within(directory, std::move(sweep));
  double newest = 0;
  for (const Event& event : stored->events) newest = std::max(newest, time_of(event));
  return HeldSweep{*std::move(journal), std::move(stored->definition), std::move(stored->options),
                   *std::move(sweep), newest};
}

bool is_run_by_others(const Definition& definition, const SweepOptions& options) {
  return options.parallel == 0 || definition.program.empty();
}

double age_of(const Definition& definition, double newest) {
  return std::max(unix_now() - definition.began_unix, newest);
}

}  // namespace muster::launcher::sweep

namespace muster::launcher {

namespace {

using WithProgram = int (*)(const Invocation&);  // reads its words itself
using OnDirectory = int (*)(const sweep::SweepCall&);
using OnView = int (*)(const sweep::SweepCall&, const sweep::SweepView&);

struct SweepWord {
  std::string_view name;
  std::variant<WithProgram, OnDirectory, OnView> execute;
  std::size_t least_operands = 0;  // after the subcommand's name
  std::size_t most_operands = 0;
  std::string_view usage{};  // of the operands, if some must be there
  std::string_view flags = "json";
};

constexpr SweepWord kSweepWordTable[] = {
    {"run", sweep::sweep_run},
    {"preview", sweep::sweep_preview},
    {"status", sweep::status, 0, 1, "", "once json"},
    {"best", sweep::best, 0, 1},
    {"show", sweep::show, 1, 2, "TRIAL DIR"},
    {"resume", sweep::sweep_resume, 0, 1, "", "parallel time-budget json"},
    {"cancel", sweep::cancel, 0, 1, "", ""},
    {"ask", sweep::sweep_ask, 0, 1},
    {"tell", sweep::sweep_tell, 2, 99, "DIR TRIAL NAME=VALUE", "step state json"},
    {"importance", sweep::importance, 0, 1},
    {"plot", sweep::plot, 0, 1, "", "output"},
    {"import", sweep::sweep_import, 2, 2, "DIR FILE", "study json"},
    {"export", sweep::sweep_export, 0, 1, "", "output tensorboard json"},
};

// Refuses a flag of `launch sweep` that this subcommand does not take.
Status check_flags(const SweepWord& word, const CommandArguments& arguments) {
  const auto taken = split(word.flags, ' ');
  for (const auto& [name, given] : arguments.flags) {
    if (std::ranges::find(taken, name) != taken.end()) continue;
    const bool is_of_run = std::ranges::find(sweep_run_flags(), name, &Flag::name) != sweep_run_flags().end();
    return failure(ErrorCode::kInvalidArgument, "{}: `launch sweep {}` takes {}{}", given.spelling, word.name,
                   word.flags.empty() ? "no flags" : fmt::format("only --{}", fmt::join(taken, ", --")),
                   is_of_run ? "; `launch sweep run` takes it for a new sweep" : "");
  }
  return {};
}

// Returns DIR, the operand after the name of the subcommand. If it is missing, returns the newest sweep in
// ./sweeps. If there is none, returns an error.
Expected<std::string> sweep_directory_of(const CommandArguments& arguments, const Surroundings& here) {
  const std::size_t place = arguments.operands.front() == "show" ? 2 : 1;
  if (arguments.operands.size() > place)
    return (std::filesystem::path(here.working_directory) / arguments.operands[place])
        .lexically_normal()
        .string();
  const std::string usual = here.working_directory + "/sweeps";
  std::string newest;
  std::error_code error;
  for (std::filesystem::directory_iterator next(usual, error);
       !error && next != std::filesystem::directory_iterator(); next.increment(error)) {
    if (next->path().string() > newest && std::filesystem::exists(next->path() / "sweep.db", error))
      newest = next->path().string();
  }
  if (!newest.empty()) return newest;
  return failure(ErrorCode::kNotFound, "there is no sweep in {}: give its directory: `launch sweep {} {}DIR`",
                 usual, arguments.operands.front(), place == 2 ? "TRIAL " : "");
}

// Turns `show DIR TRIAL` into `show TRIAL DIR`, if only the second of the two words is a number.
void sort_words_of_show(std::vector<std::string>& operands) {
  if (operands.front() != "show" || operands.size() != 3) return;
  const auto is_number = [](const std::string& word) { return parse_number<std::int32_t>(word).has_value(); };
  if (!is_number(operands[1]) && is_number(operands[2])) std::swap(operands[1], operands[2]);
}

int execute(const SweepWord& word, const CommandArguments& arguments, const Surroundings& here) {
  const auto directory = sweep_directory_of(arguments, here);
  if (!directory) return refuse(directory.error(), kExitUsage);
  const sweep::SweepCall call{arguments, here, *directory, arguments.has("json")};
  if (const auto* on_directory = std::get_if<OnDirectory>(&word.execute)) return (*on_directory)(call);
  const auto view = sweep::view_sweep(*directory, here);
  if (!view) return refuse(view.error(), kExitUsage);
  return std::get<OnView>(word.execute)(call, *view);
}

}  // namespace

int sweep_command(const Invocation& invocation) {
  const auto& words = invocation.words;
  const std::string name = words.empty() ? "" : words.front();
  if (name == "-h" || name == "--help") return print(help_of(invocation.command));
  const auto* word = std::ranges::find(kSweepWordTable, name, &SweepWord::name);
  if (word == std::end(kSweepWordTable))
    return refuse({ErrorCode::kInvalidArgument,
                   name.empty() ? fmt::format("sweep: say what to do: {}", kSweepWords)
                                : fmt::format("sweep: {}: not one of {}{}", name, kSweepWords,
                                              did_you_mean(name, kSweepWords))},
                  kExitUsage);
  if (const auto* with_program = std::get_if<WithProgram>(&word->execute)) {
    Invocation rest = invocation;
    rest.words.erase(rest.words.begin());
    if (!rest.words.empty() && (rest.words.front() == "-h" || rest.words.front() == "--help"))
      return print(help_of(invocation.command));
    return (*with_program)(rest);
  }
  auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  if (const Status known = check_flags(*word, *arguments); !known) return refuse(known.error(), kExitUsage);
  const std::size_t given = arguments->operands.size() - 1;
  if (given < word->least_operands)
    return refuse({ErrorCode::kInvalidArgument,
                   fmt::format("sweep {0}: too few words: `launch sweep {0} {1}`", name, word->usage)},
                  kExitUsage);
  if (given > word->most_operands)
    return refuse({ErrorCode::kInvalidArgument,
                   fmt::format("sweep {}: {} is one argument too many", name, arguments->operands.back())},
                  kExitUsage);
  sort_words_of_show(arguments->operands);
  return execute(*word, *arguments, invocation.here);
}

}  // namespace muster::launcher
