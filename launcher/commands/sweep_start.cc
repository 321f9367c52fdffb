// `launch sweep run`, `preview` and `resume`.
#include <filesystem>
#include <fmt/ranges.h>
#include <set>
#include <unistd.h>

#include "common/base/text.h"
#include "common/checkpoint/directory.h"
#include "launcher/commands/prepare.h"
#include "launcher/commands/signals.h"
#include "launcher/commands/sweep.h"
#include "launcher/core/sweep/view/best.h"
#include "launcher/core/sweep/view/preview_table.h"
#include "launcher/core/sweep/view/table.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/fleet/container_preparation.h"
#include "launcher/io/fleet/local_bootstrap.h"
#include "launcher/io/fleet/sync.h"
#include "launcher/io/settings/config_file.h"
#include "launcher/io/sweep/lost_run.h"
#include "launcher/io/sweep/sweep_run.h"
#include "launcher/io/sweep/trial_directory.h"
#include "launcher/io/view/job_directory.h"
#include "launcher/io/view/job_files.h"
#include "launcher/io/view/terminal.h"

namespace muster::launcher::sweep {

namespace {

// Nobody can attach to a trial whose controller has ended. So the trial ends when its controller ends, and
// `sweep resume` starts the trial again.
constexpr Duration kTrialGrace{};
constexpr auto kProgressPeriod = std::chrono::milliseconds(200);
constexpr Duration kFlushLimit = std::chrono::seconds(5);  // for a slow reader

// Returns whether the word names a file of a sweep, and not a program.
bool is_sweep_file(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml");
}

// Reads the words of `sweep run`, and the sweep's file if they name one.
Expected<Definition> read_definition(const std::vector<std::string>& words, const Surroundings& here,
                                     std::vector<std::string>& notices) {
  auto given = read_words(words, here, sweep_run_flags());
  if (!given) return std::unexpected(given.error());
  Definition definition{.id = {},
                        .working_directory = here.working_directory,
                        .began_unix = unix_now(),
                        .settings = std::move(given->settings),
                        .program = std::move(given->program),
                        .space = nlohmann::ordered_json::object()};
  notices = std::move(given->notices);
  std::vector<std::string>& program = definition.program;
  if (given->after_dashes || program.empty() || !is_sweep_file(program.front())) return definition;
  const std::string path = (std::filesystem::path(here.working_directory) / program.front()).string();
  auto file = read_sweep_file(path, here.environment);
  if (!file) return std::unexpected(file.error());
  // Flags can stand before the file and after it. If a flag stands in both places, the later one counts.
  program.erase(program.begin());
  auto more = read_words(program, here, sweep_run_flags());
  if (!more) return std::unexpected(more.error());
  notices = std::move(more->notices);
  more->settings.merge(definition.settings);
  more->settings.merge(file->job.settings);
  definition.settings = std::move(more->settings);
  definition.space = std::move(file->space);
  program = std::move(more->program);
  // The file contains the program. If words that begin with a dash follow `--`, they are more arguments for
  // this program, as with --config.
  if (program.empty() || program.front().starts_with('-'))
    program.insert(program.begin(), file->job.program.begin(), file->job.program.end());
  return definition;
}

// Everything that the definition leads to.
struct Setup {
  Definition definition;
  SweepOptions sweep;
  Options job;  // of each trial, before its own values
  Machine machine;
  std::vector<Berth> berths;
  Surroundings here;
  bool has_checkpoints = false;
  bool program_is_here = true;
};

bool pauses(ScheduleSettings::Kind kind) {
  using enum ScheduleSettings::Kind;
  return kind == kAsha || kind == kHyperband || kind == kPbt;
}

// Returns the GPUs of a trial in the form that CUDA_VISIBLE_DEVICES takes. They are indexes or names.
std::string visible_gpus(const std::vector<std::int32_t>& gpus, const Surroundings& here) {
  const auto given = here.environment.find("CUDA_VISIBLE_DEVICES");
  std::string text;
  for (const std::int32_t gpu : gpus) {
    std::string name = std::to_string(gpu);
    if (given != here.environment.end()) name = split(given->second, ',').at(static_cast<std::size_t>(gpu));
    text += (text.empty() ? "" : ",") + name;
  }
  return text;
}

// Refuses --gpus if it names certain GPUs. All containers of one engine get the same --gpus, but each trial
// of the sweep gets GPUs of its own.
Status check_container_gpus(const Setup& setup) {
  const std::string& gpus = setup.job.remote.container.gpus;
  if (gpus.empty()) return {};
  if (gpus != "all" && gpus != std::to_string(setup.sweep.gpus_per_trial))
    return failure(ErrorCode::kInvalidArgument,
                   "--gpus: {}: a sweep gives each trial --gpus-per-trial of the GPUs: give all", gpus);
  if (setup.job.hosts.empty() && setup.sweep.nodes_per_trial > 1)
    return failure(ErrorCode::kInvalidArgument,
                   "--nodes-per-trial: {}: with --gpus a trial has one container on this machine: give more "
                   "--gpus-per-trial",
                   setup.sweep.nodes_per_trial);
  return {};
}

// For some flags of a job, a sweep has flags of its own, such as --nodes-per-trial in place of --nodes. This
// refuses those flags of the job.
Status check_flags_of_job(const Settings& settings) {
  for (const char* name : {"share-gpus", "wait-for-gpus"}) {
    if (const auto found = settings.find(name); found != settings.end())
      return failure(ErrorCode::kInvalidArgument,
                     "{}: a sweep gives each worker of a trial a GPU of its own: leave it out",
                     found->second.source);
  }
  for (const char* name : {"nodes", "gpus-per-node", "log-dir"}) {
    if (const auto found = settings.find(name); found != settings.end())
      return failure(ErrorCode::kInvalidArgument, "{}: a sweep has its own: give {}", found->second.source,
                     std::string_view(name) == "nodes"     ? "--nodes-per-trial"
                     : std::string_view(name) == "log-dir" ? "--sweep-dir"
                                                           : "--gpus-per-trial");
  }
  return {};
}

Expected<Setup> set_up(Definition definition, const Surroundings& here) {
  Setup setup;
  setup.definition = std::move(definition);
  setup.here = here;
  const Definition& asked = setup.definition;
  auto sweep = make_sweep_options(asked.settings, asked.space, asked.program, here);
  if (!sweep) return std::unexpected(sweep.error());
  setup.sweep = *std::move(sweep);
  const bool runs = setup.sweep.parallel != 0;  // otherwise other programs run the trials
  if (runs && asked.program.empty())
    return failure(ErrorCode::kInvalidArgument,
                   "no program given: `launch sweep run --space ... PROGRAM --lr {{lr}}`");
  const Status has_point = check_has_point(setup.sweep.settings.search, setup.sweep.settings.space);
  if (!has_point) return std::unexpected(has_point.error());
  if (Status fits = check_flags_of_job(asked.settings); !fits) return std::unexpected(fits.error());
  const std::vector<std::string> none{"none"};  // for a sweep without a program, whose flags are read as well
  auto options = read_options(asked.settings, asked.program.empty() ? none : asked.program, here);
  if (!options) return std::unexpected(options.error());
  setup.job = *std::move(options);
  setup.job.nodes = setup.sweep.nodes_per_trial;
  setup.job.workers_per_node = {WorkerCount::Kind::kNumber, setup.sweep.gpus_per_trial, "--gpus-per-trial",
                                true};
  if (!asked.settings.contains("max-restarts")) setup.job.max_restarts = 0;
  if (!asked.settings.contains("controller-grace")) setup.job.limits.controller_grace = kTrialGrace;
  setup.has_checkpoints =
      !setup.job.checkpoint_directory.empty() || pauses(setup.sweep.settings.schedule.kind);
  if (Status fits = check_container_gpus(setup); !fits) return std::unexpected(fits.error());
  setup.machine = look_at_machine(setup.job, here);
  if (!runs) return setup;
  auto berths = berths_of(setup.sweep, {.hosts = setup.job.hosts,
                                        .core_count = setup.machine.core_count,
                                        .gpu_count = setup.machine.gpu_count});
  if (!berths) return std::unexpected(berths.error());
  setup.berths = *std::move(berths);
  return setup;
}

std::string trial_of(const Setup& setup, std::int32_t trial) {
  return trial_directory(setup.sweep.directory, trial);
}

std::string job_id_of(const Setup& setup, std::int32_t trial, std::int32_t run) {
  return fmt::format("{}-t{}-r{}", setup.definition.id, trial, run);
}

// Returns the directory that has the checkpoints of all trials. Returns "" if the checkpoints of each trial
// are in the trial's own directory. The last part of the path is the name of the sweep. An older sweep with
// the same directory may have left checkpoints on a host, and this sweep must not find them.
std::string checkpoints_of_all(const Setup& setup) {
  const std::string& given = setup.job.checkpoint_directory;
  if (given.empty() && setup.job.hosts.empty()) return "";
  return fmt::format("{}/{}", given.empty() ? setup.sweep.directory + "/checkpoints" : given,
                     setup.definition.id);
}

// The plan of a trial mounts the directories of this trial. Replaces them by the directories of all trials,
// so that the container can serve each trial.
void mount_for_all_trials(const Setup& setup, std::int32_t trial, Plan& plan) {
  std::vector<Mount> mounts;
  for (Mount mount : plan.remote.container.mounts) {
    if (mount.source == plan.job.log_directory || mount.source == trial_of(setup, trial))
      mount = {setup.sweep.directory, setup.sweep.directory};
    if (mount.source == plan.job.checkpoint_directory) {
      const std::string all = checkpoints_of_all(setup);
      mount.source = all.empty() ? setup.sweep.directory : all;
      mount.destination = mount.source;
    }
    const auto there = std::ranges::find(mounts, mount.destination, &Mount::destination);
    if (there == mounts.end()) mounts.push_back(std::move(mount));
  }
  plan.remote.container.mounts = std::move(mounts);
}

// Returns the plan of a run in its slot. Creates nothing.
Expected<Plan> plan_of_run(const Setup& setup, const StartRun& start) {
  const Berth& berth = setup.berths.at(static_cast<std::size_t>(start.slot));
  const TrialPlace place{.trial = start.trial,
                         .directory = trial_of(setup, start.trial),
                         .seed = trial_seed(setup.sweep.settings.search.seed, start.trial)};
  auto program = program_of(setup.definition.program, setup.sweep.settings.space, start.point, place);
  if (!program) return std::unexpected(program.error());
  Options options = setup.job;
  options.program = *std::move(program);
  options.added.merge(variables_of(start.point, place));
  options.added["MUSTER_SWEEP_DIR"] = setup.sweep.directory;
  options.log_directory = place.directory;
  if (setup.has_checkpoints)
    options.checkpoint_directory =
        checkpoints_of(setup.sweep.directory, start.trial, checkpoints_of_all(setup));
  options.hosts = berth.hosts;
  if (options.remote.in_containers())
    options.remote.container.mounts.push_back({.source = place.directory, .destination = place.directory});
  Machine machine = setup.machine;
  if (berth.core_count > 0) machine.core_count = berth.core_count;
  Surroundings here = setup.here;
  if (!berth.gpus.empty()) {
    const std::string gpus =
        berth.hosts.empty() ? visible_gpus(berth.gpus, here) : visible_gpus(berth.gpus, {});
    if (std::string& of_container = options.remote.container.gpus; !of_container.empty()) {
      of_container = "device=" + gpus;
    } else if (berth.hosts.empty()) {
      here.environment["CUDA_VISIBLE_DEVICES"] = gpus;
      machine.gpu_count = static_cast<std::int32_t>(berth.gpus.size());
    } else if (options.device != Device::kCpu) {
      options.added["CUDA_VISIBLE_DEVICES"] = gpus;
    }
  }
  auto plan = make_plan(options, machine, here, job_id_of(setup, start.trial, start.run));
  if (!plan) return plan;
  if (plan->remote.bootstrap == BootstrapKind::kDocker) mount_for_all_trials(setup, start.trial, *plan);
  plan->program_is_here = setup.program_is_here;
  plan->take_over = true;  // the trial's earlier runs are over
  return plan;
}

// Returns whether the checkpoints that a trial saves on one host may be needed elsewhere. With several hosts,
// the next run of the trial may be on another host. With PBT, this machine copies the checkpoints, so even a
// single host shares them with this machine.
bool shares_checkpoints(const Setup& setup) {
  if (!setup.has_checkpoints) return false;
  const bool copies = setup.sweep.settings.schedule.kind == ScheduleSettings::Kind::kPbt;
  return setup.job.hosts.size() > (copies ? 0U : 1U);
}

// Creates the run's directories, and returns the run's plan.
Expected<Plan> prepare_run(const Setup& setup, const StartRun& start) {
  auto plan = plan_of_run(setup, start);
  if (!plan) return plan;
  plan->shares_checkpoints = shares_checkpoints(setup);
  const Status prepared = prepare_trial(setup.sweep.directory, checkpoints_of_all(setup), start);
  if (!prepared) return std::unexpected(prepared.error());
  if (setup.has_checkpoints && plan->remote.in_containers()) {  // which only have directories that are there
    const CheckpointDirectory checkpoints(plan->job.checkpoint_directory);
    if (Status usable = checkpoints.check_writable(); !usable) return std::unexpected(usable.error());
  }
  if (Status made = make_job_directory(plan->job.log_directory); !made) return std::unexpected(made.error());
  if (!plan->hosts.empty()) {
    auto nonce = leave_nonce(plan->job.log_directory);
    if (!nonce) return std::unexpected(nonce.error());
    plan->job.log_nonce = *std::move(nonce);
  }
  return plan;
}

// Returns a run with an arbitrary point. It serves to find out what all runs have in common.
StartRun any_run(const Setup& setup) {
  return {.point = point_at(setup.sweep.settings.space,
                            std::vector<double>(setup.sweep.settings.space.parameters.size(), 0.5))};
}

// If the program cannot be started, refuses it before the directory of the sweep is created.
int refuse_first(const Setup& setup) {
  const auto plan = plan_of_run(setup, any_run(setup));
  if (!plan) return refuse(plan.error(), kExitUsage);
  return refuse_program(*plan, setup.definition.program.front(), setup.here);
}

// Copies directories to all hosts, and finds or pulls the image. Returns 0, or the exit code with which the
// sweep has to end.
int prepare_places(const Setup& setup, int signals) {
  const bool has_containers = setup.job.remote.bootstrap == BootstrapKind::kDocker;
  if (setup.job.remote.sync.empty() && !has_containers) return 0;
  auto plan = plan_of_run(setup, any_run(setup));
  if (!plan) return refuse(plan.error(), kExitUsage);
  plan->hosts = setup.job.hosts;
  plan->job.log_directory = setup.sweep.directory;
  const BeforeJob before{signals, [](const std::string& what) { say(what); }};
  if (!setup.job.remote.sync.empty()) {
    if (const int failed = sync_hosts(*plan, before); failed != 0) return failed;
  }
  return has_containers ? prepare_containers(*plan, before) : 0;
}

// Prints one line for each run that has ended. The lines are for people and for pipes.
void tell(Terminal& terminal, const History& history, std::span<const Event> events,
          const SweepOptions& options) {
  for (const Event& event : events) {
    const auto* ended = std::get_if<RunEnded>(&event);
    if (ended == nullptr) continue;
    const Trial& trial = history.trials().at(static_cast<std::size_t>(ended->trial));
    const bool again = ended->end == RunEnd::kFailed && trial.state != TrialState::kFailed;
    std::string text =
        fmt::format("trial {} {}", trial.number, again ? "failed and is tried again" : name_of(ended->end));
    for (const Objective& each : options.settings.search.objectives) {
      if (const auto value = trial.newest(each.metric))
        text += fmt::format(" {}={:.6g}", each.metric, *value);
    }
    if (trial.newest_step() >= 0) text += fmt::format(" at step {}", trial.newest_step());
    if (!ended->text.empty()) text += ": " + ended->text;
    terminal.say(text);
  }
}

// Returns a text such as "16 trials, 2 running, 14 finished; best: trial 3, loss=0.1".
std::string state_of(const Setup& setup, const History& history) {
  std::string text = count_of(history.trials().size(), "trial") + counts_of_states(history.trials());
  const auto best = best_trials(history, setup.sweep.settings.search.objectives);
  if (best.empty()) return text;
  const Trial& first = history.trials().at(static_cast<std::size_t>(best.front()));
  const std::string& metric = setup.sweep.settings.search.objectives.front().metric;
  return text +
         fmt::format("; best: trial {}, {}={:.6g}", first.number, metric, first.newest(metric).value_or(0));
}

// Returns 128 + signal after a signal. Otherwise returns kExitNodesMissing if no host is left. Otherwise
// returns 0 if a trial has finished with a value of `metric`, and 1 if none has.
int exit_code_of(const Sweep& sweep, const std::string& metric, const SweepRun& run) {
  if (run.signal() != 0) return 128 + run.signal();
  if (sweep.lacks_hosts()) return kExitNodesMissing;
  const bool any = std::ranges::any_of(sweep.history().trials(), [&](const Trial& trial) {
    return trial.state == TrialState::kFinished && trial.newest(metric);
  });
  return any ? 0 : 1;
}

void tell_end(const Setup& setup, const History& history, const std::string& why, bool json) {
  const auto best = best_trials(history, setup.sweep.settings.search.objectives);
  if (json) {
    print(nlohmann::ordered_json{{"sweep_dir", setup.sweep.directory},
                                 {"ended", why},
                                 {"best", best},
                                 {"trials", trials_as_json(history.trials())}}
              .dump(2) +
          "\n");
    return;
  }
  say(fmt::format("{}: {}", why, state_of(setup, history)));
  if (!best.empty())
    say(fmt::format("`launch sweep best {}` prints its command line", as_shell_word(setup.sweep.directory)));
}

// Adds places for trials on hosts that are not in `taken`. `slots` is the number of places that are still in
// use. If --parallel is given, it limits the number of all places, old and new ones together.
std::vector<Berth> more_berths(Setup& setup, const std::set<std::string>& taken, std::size_t slots) {
  Room room{.hosts = setup.job.hosts};
  std::erase_if(room.hosts, [&taken](const Host& host) { return taken.contains(host.name); });
  if (room.hosts.empty()) return {};
  SweepOptions options = setup.sweep;
  options.parallel.reset();
  std::vector<Berth> berths = berths_of(options, room).value_or(std::vector<Berth>());
  if (setup.sweep.parallel) {
    const auto most = static_cast<std::size_t>(*setup.sweep.parallel);
    berths.resize(std::min(berths.size(), most - std::min(most, slots)));
  }
  setup.berths.insert(setup.berths.end(), berths.begin(), berths.end());
  return berths;
}

// Runs the sweep until it is over.
int carry_out(Setup& setup, Journal& journal, Sweep& sweep, int signals, double newest) {
  const auto agent_program = LocalBootstrap::find_agent_program();
  if (!agent_program) return refuse(agent_program.error(), kExitInternal);
  if (const int failed = prepare_places(setup, signals); failed != 0) return failed;
  asio::io_context context(1);
  net::LogWriter files(context.get_executor());
  if (const Status started = files.start(); !started) return refuse(started.error(), kExitInternal);
  const bool json = setup.job.json;
  Terminal terminal(context.get_executor(), /*output_to_stderr=*/true);
  const bool is_watched = isatty(STDERR_FILENO) == 1 && !json && !setup.job.quiet;
  TimePoint next_progress;
  const auto more = [&setup](const std::set<std::string>& taken, std::size_t slots) {
    return more_berths(setup, taken, slots);
  };
  SweepRun run(sweep, {.context = context,
                       .files = files,
                       .agent_program = *agent_program,
                       .signals = signals,
                       .local = setup.job.remote.bootstrap == BootstrapKind::kLocal,
                       .time_budget = setup.sweep.time_budget,
                       .age = age_of(setup.definition, newest),
                       .keep = [&journal](std::span<const Event> events) { return journal.add(events); },
                       .more_berths = more,
                       .prepare = [&setup](const StartRun& start) { return prepare_run(setup, start); },
                       .log_directory_flag =
                           [&setup](const StartRun& start) {
                             return " --log-dir " + as_shell_word(trial_of(setup, start.trial));
                           },
                       .show =
                           [&](std::span<const Event> events) {
                             if (!json && !setup.job.quiet)
                               tell(terminal, sweep.history(), events, setup.sweep);
                             if (!is_watched || Clock::now() < next_progress) return;
                             next_progress = Clock::now() + kProgressPeriod;
                             terminal.show_progress(state_of(setup, sweep.history()));
                           },
                       .say = [&terminal](const std::string& what) { terminal.say(what); }});
  const auto ended = run.run(setup.berths);
  terminal.show_progress("");
  terminal.flush({.limit = kFlushLimit});
  if (!ended)
    return refuse(ended.error(),
                  ended.error().code() == ErrorCode::kInvalidArgument ? kExitUsage : kExitInternal);
  tell_end(setup, sweep.history(), *ended, json);
  if (sweep.lacks_hosts())
    say(fmt::format("`launch sweep resume {}` tries all hosts again", as_shell_word(setup.sweep.directory)));
  return exit_code_of(sweep, setup.sweep.settings.search.objectives.front().metric, run);
}

// The controller was killed, and its runs ended with it, perhaps long before now. This ends them in the
// journal, too, according to what they have left in their directories. `newest` is the time of the newest
// event that the journal has already. This function adds events, and returns the time of the last of these.
// If it adds none, it returns `newest`.
Expected<double> end_lost_runs(const Setup& setup, Sweep& sweep, Journal& journal, double newest) {
  std::map<std::int32_t, LostRun> all;
  double when = newest;
  const double now = age_of(setup.definition, newest);
  for (const Trial& trial : sweep.history().trials()) {
    if (trial.state != TrialState::kRunning) continue;
    const std::string job_id = job_id_of(setup, trial.number, trial.run_count - 1);
    auto lost = read_lost_run(trial_of(setup, trial.number) + "/" + job_id,
                              setup.sweep.nodes_per_trial * setup.sweep.gpus_per_trial, trial.counts_from);
    if (!lost) return std::unexpected(lost.error());
    when = std::clamp(lost->ended_unix - setup.definition.began_unix, when, now);
    all.emplace(trial.number, *std::move(lost));
  }
  std::vector<Event> events;
  const auto add = [&events](SweepDecisions decisions) {
    std::ranges::move(decisions.events, std::back_inserter(events));
  };
  for (auto& [trial, lost] : all) {
    for (auto& [step, values] : lost.reports) add(sweep.on_found(trial, step, std::move(values), when));
    add(sweep.on_lost(trial, lost.finished, when));
  }
  if (const Status kept = journal.add(events); !kept) return std::unexpected(kept.error());
  return when;
}

// If some parameters are in the program's arguments and others are not, the names of the others may be
// mistyped. Returns a notice about these, such as "lrr is in no argument: the program gets it as
// MUSTER_PARAM_LRR".
std::optional<std::string> notice_of_outside(const Setup& setup) {
  const Space& space = setup.sweep.settings.space;
  const auto names = parameters_outside(setup.definition.program, space);
  if (names.empty() || names.size() == space.parameters.size()) return std::nullopt;
  std::vector<std::string> variables;
  for (const std::string& name : names) variables.push_back(variable_of(name));
  return fmt::format("{} {} in no argument: the program gets {} as {}", fmt::join(names, ", "),
                     names.size() == 1 ? "is" : "are", names.size() == 1 ? "it" : "them",
                     fmt::join(variables, ", "));
}

// Call when a sweep was refused. If no run of the sweep has ended, removes the sweep. So the user can give
// the same directory again.
void remove_if_unused(const Setup& setup, const History& history) {
  const bool unused = std::ranges::all_of(history.trials(), [](const Trial& trial) {
    return trial.state == TrialState::kRunning && trial.run_count == 1;
  });
  if (!unused) return;
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const Trial& trial : history.trials()) fs::remove_all(trial_of(setup, trial.number), ignored);
  if (const std::string all = checkpoints_of_all(setup); !all.empty()) fs::remove_all(all, ignored);
  for (const char* name :
       {"trials", "checkpoints", "sweep.db-wal", "sweep.db-shm", "sweep.db", "controller", ""})
    fs::remove(fs::path(setup.sweep.directory) / name, ignored);
}

std::string usual_directory(const Surroundings& here) {
  return here.working_directory + "/sweeps/" + make_job_id("");
}

}  // namespace

int sweep_run(const Invocation& invocation) {
  const UniqueFd signals = take_signals();
  std::vector<std::string> notices;
  auto definition = read_definition(invocation.words, invocation.here, notices);
  if (!definition) return refuse(definition.error(), kExitUsage);
  auto setup = set_up(*std::move(definition), invocation.here);
  if (!setup) return refuse(setup.error(), kExitUsage);
  const bool runs = !setup->berths.empty();
  if (const auto outside = notice_of_outside(*setup); runs && outside && !setup->job.quiet)
    notices.push_back(*outside);
  for (const std::string& notice : notices) say(notice);
  if (const int refused = runs ? refuse_first(*setup) : 0; refused != 0) return refused;
  if (setup->sweep.directory.empty()) setup->sweep.directory = usual_directory(invocation.here);
  setup->definition.id = make_job_id("sweep");
  setup->definition.settings["sweep-dir"] = {"--sweep-dir", {setup->sweep.directory}};
  auto journal = Journal::create(setup->sweep.directory, as_json(setup->definition));
  if (!journal) return refuse(std::move(journal).error().within("--sweep-dir"), kExitUsage);
  if (!runs)
    return print(fmt::format("{}: `launch sweep ask` starts trials, `launch sweep tell` ends them\n",
                             setup->sweep.directory));
  if (!setup->job.quiet && !setup->job.json)
    say(fmt::format("sweep in {}: {} of {}, {} at once", setup->sweep.directory,
                    count_of(static_cast<std::size_t>(setup->sweep.settings.schedule.trials), "trial"),
                    count_of(setup->sweep.settings.space.parameters.size(), "parameter"),
                    setup->berths.size()));
  if (!setup->has_checkpoints && setup->job.hosts.size() > 1 && !setup->job.quiet)
    say("the trials of a lost host begin again on another one: give --checkpoint-dir, "
        "in a directory that all hosts share, and they go on");
  Sweep sweep(setup->sweep.settings, {setup->sweep.retries});
  const int exit_code = carry_out(*setup, *journal, sweep, signals.get(), 0);
  if (exit_code == kExitUsage) remove_if_unused(*setup, sweep.history());
  return exit_code;
}

int sweep_resume(const SweepCall& call) {
  const UniqueFd signals = take_signals();
  auto held = hold_sweep(call.directory, call.here);
  if (!held) return refuse(held.error(), kExitUsage);
  held->definition.settings["sweep-dir"] = {"DIR", {call.directory}};
  if (is_run_by_others(held->definition, held->options))
    return refuse({ErrorCode::kInvalidArgument,
                   call.directory + " is run by other programs: `launch sweep ask` starts its trials"},
                  kExitUsage);
  for (const char* name : {"parallel", "time-budget"}) {  // for this time
    if (call.arguments.has(name))
      held->definition.settings[name] = {fmt::format("--{}", name), {call.arguments.value(name)}};
  }
  auto setup = set_up(held->definition, surroundings_of(held->definition, call.here));
  if (!setup) return refuse(setup.error(), kExitUsage);
  if (call.json) setup->job.json = true;
  if (setup->berths.empty())
    return refuse({ErrorCode::kInvalidArgument, "--parallel: 0: give 1 or more to go on with the sweep"},
                  kExitUsage);
  const auto ended_at = end_lost_runs(*setup, held->sweep, held->journal, held->newest);
  if (!ended_at) return refuse(ended_at.error(), kExitInternal);
  return carry_out(*setup, held->journal, held->sweep, signals.get(), *ended_at);
}

int sweep_preview(const Invocation& invocation) {
  std::vector<std::string> notices;
  auto definition = read_definition(invocation.words, invocation.here, notices);
  if (!definition) return refuse(definition.error(), kExitUsage);
  const auto setup = set_up(*std::move(definition), invocation.here);
  if (!setup) return refuse(setup.error(), kExitUsage);
  const PreviewFacts facts{.preview = preview(setup->sweep.settings.schedule),
                           .slots = setup->berths.size(),
                           .step = setup->sweep.step_time};
  return print(setup->job.json ? preview_as_json(facts).dump(2) + "\n"
                               : preview_as_text(facts, terminal_columns()));
}

}  // namespace muster::launcher::sweep
