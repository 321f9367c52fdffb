#include "tests/simulation/sweeps.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "tests/simulation/chance.h"
#include "tests/sweep_judge.h"

namespace muster::simulation {

namespace {

using namespace launcher::sweep;
using Search = SearchSettings::Kind;
using Schedule = ScheduleSettings::Kind;

constexpr int kMostSteps = 200'000;  // of all programs of a sweep
constexpr double kFault = 0.02;      // probability of a fault that a seed has, at each step
constexpr const char* kMetric = "loss";

struct SweepSetup {
  SweepSettings settings;
  std::int32_t slots = 1;
  std::int32_t retries = 0;
  bool has_hosts = false;  // one for each slot
  bool only_controller_dies = false;
  std::array<double, kSweepFaultCount> chances{};
};

constexpr auto kKinds = std::to_array<std::pair<Search, Schedule>>({
    {Search::kRandom, Schedule::kNone},
    {Search::kGrid, Schedule::kNone},
    {Search::kTpe, Schedule::kNone},
    {Search::kRandom, Schedule::kAsha},
    {Search::kTpe, Schedule::kAsha},
    {Search::kTpe, Schedule::kAshaStop},
    {Search::kGrid, Schedule::kAshaStop},
    {Search::kBohb, Schedule::kHyperband},
    {Search::kRandom, Schedule::kHyperband},
    {Search::kSobol, Schedule::kMedian},
    {Search::kRandom, Schedule::kPbt},
});

SweepSetup setup_of(std::uint64_t seed) {
  Chance chance(seed, /*salt=*/101);
  SweepSetup setup;
  const auto [search, schedule] = kKinds[static_cast<std::size_t>(chance.below(kKinds.size()))];
  SweepSettings& settings = setup.settings;
  const bool finite = search == Search::kGrid;
  settings.space =
      *parse_space(finite ? "y=int:1:8,z=choice:a:b:c" : "x=uniform:0:1,y=int:1:8,z=choice:a:b:c");
  const Objective objective{kMetric, chance.one_in(2) ? Mode::kMin : Mode::kMax};
  settings.search = {.kind = search, .objectives = {objective}, .rungs = {}, .seed = seed};
  settings.schedule = {.kind = schedule,
                       .objective = objective,
                       .trials = 3 + chance.below(25),
                       .max_steps = 4 + chance.below(24),
                       .grace_steps = 1 + chance.below(3),
                       .eta = 2 + chance.below(3),
                       .seed = seed};
  for (const Rung& rung : preview(settings.schedule).rungs) settings.search.rungs.push_back(rung.steps);
  setup.slots = 1 + chance.below(5);
  setup.retries = chance.below(3);
  setup.has_hosts = chance.one_in(2);
  setup.only_controller_dies = chance.one_in(4);
  if (setup.only_controller_dies) setup.slots = 1;
  for (std::size_t fault = 0; fault < kSweepFaultCount; ++fault) {
    const bool has = setup.only_controller_dies
                         ? fault == static_cast<std::size_t>(SweepFault::kControllerKilled)
                         : chance.one_in(2);
    if (has) setup.chances[fault] = kFault;
  }
  double& late = setup.chances[static_cast<std::size_t>(SweepFault::kLateSteps)];
  if (late > 0) late = 0.5;
  // PBT compares at every step: with steps that nobody heard it compares less often than undisturbed.
  if (setup.only_controller_dies && schedule != Schedule::kPbt)
    setup.chances[static_cast<std::size_t>(SweepFault::kUnheardSteps)] = 0.5;
  return setup;
}

double number_in(const Point& point, const char* name) {
  const auto found = point.find(name);
  if (found == point.end()) return 0;
  if (const auto* real = std::get_if<double>(&found->second)) return *real;
  return static_cast<double>(std::get<std::int64_t>(found->second));
}

double loss_of(const Point& point, std::int64_t step) {
  const double x = number_in(point, "x") - 0.3;
  return x * x + 0.01 * number_in(point, "y") + 1.0 / static_cast<double>(step);
}

// One sweep with its programs, from its begin to its end, through all its controllers.
class SweepWorld {
 public:
  SweepWorld(const SweepSetup& setup, std::uint64_t seed, std::function<void(const std::string&)> trace)
      : setup_(setup), chance_(seed, /*salt=*/102), trace_(std::move(trace)) {}

  void run() {
    begin_controller();
    while (!sweep_->is_over() && failures_.empty()) {
      if (happens(SweepFault::kControllerKilled)) {
        kill_controller();
        continue;
      }
      if (runs_.empty()) return fail("the sweep waits for nothing");
      go_on(next_run());
      if (++steps_ > kMostSteps) fail("the sweep does not end");
    }
    if (!runs_.empty() && failures_.empty()) fail("the sweep is over, but a trial runs");
  }
  const std::vector<Event>& events() const { return events_; }
  const History& history() const { return sweep_->history(); }
  const std::array<int, kSweepFaultCount>& faults() const { return faults_; }
  std::vector<std::string> failures_;

 private:
  struct Run {
    std::int32_t trial = 0;
    Point point;
    std::int64_t until = 0;  // as in StartRun
    bool ends = false;
    double at = 0;  // when it does its next step
  };
  struct Program {
    std::int64_t saved = 0;       // its newest checkpoint
    std::int64_t taken_over = 0;  // the step that it took over from another trial
    std::int32_t taken_run = -1;  // the first run since then
    std::map<std::int64_t, std::map<std::string, double>> reports;  // of its newest run, by step
  };

  void fail(std::string what) { failures_.push_back(std::move(what)); }
  bool draw(double probability) { return chance_.below(1'000'000) < static_cast<int>(probability * 1e6); }
  bool happens(SweepFault fault) {
    const auto index = static_cast<std::size_t>(fault);
    const bool yes = draw(setup_.chances[index]);
    if (yes) ++faults_[index];
    return yes;
  }
  double pause() { return 0.5 + chance_.below(1000) / 1000.0; }
  std::int64_t last_step() const { return setup_.settings.schedule.max_steps; }

  void begin_controller() {
    sweep_.emplace(setup_.settings, RetryLimit{setup_.retries});
    runs_.clear();
    for (const Event& event : events_) {
      if (const Status replayed = sweep_->replay(event); !replayed) fail(replayed.error().message());
    }
    for (std::size_t number = 0; number < sweep_->history().trials().size(); ++number) {
      if (sweep_->history().trials()[number].state != TrialState::kRunning) continue;
      const auto trial = static_cast<std::int32_t>(number);
      for (const auto& [step, values] : programs_[trial].reports)
        take(sweep_->on_found(trial, step, values, now_));
      take(sweep_->on_lost(trial, programs_[trial].saved >= last_step(), now_));
    }
    for (std::int32_t slot = 0; slot < setup_.slots; ++slot) {
      std::vector<std::string> hosts;
      if (setup_.has_hosts) hosts.push_back(host_of(slot));
      take(sweep_->add_slot(slot, "", now_, std::move(hosts)));
    }
  }

  void kill_controller() {
    for (const auto& [slot, run] : runs_) {
      Program& program = programs_[run.trial];
      // A program that goes on beyond the step at which it is to be paused or stopped is not the undisturbed
      // one any more: it may train to its end.
      const bool stays_the_same = setup_.only_controller_dies && run.until > 0;
      const std::int64_t last = stays_the_same ? run.until : last_step();
      while (program.saved < last && happens(SweepFault::kUnheardSteps)) do_step(run);
    }
    begin_controller();
  }

  static std::string host_of(std::int32_t slot) { return fmt::format("host{}", slot); }

  std::int32_t next_run() const {
    return std::ranges::min_element(runs_, {}, [](const auto& each) { return each.second.at; })->first;
  }

  // Does a step, and leaves its report behind. Returns the values.
  std::map<std::string, double> do_step(const Run& run) {
    Program& program = programs_[run.trial];
    const std::int64_t step = ++program.saved;
    double loss = loss_of(run.point, step);
    if (happens(SweepFault::kValueNotFinite)) loss = std::numeric_limits<double>::quiet_NaN();
    return program.reports[step] = {{happens(SweepFault::kNoMetric) ? "other" : kMetric, loss}};
  }

  void go_on(std::int32_t slot) {
    Run& run = runs_.at(slot);
    now_ = std::max(now_, run.at);
    Program& program = programs_[run.trial];
    const bool is_late = run.ends && program.saved < last_step() && happens(SweepFault::kLateSteps);
    if (run.ends && !is_late) return end(slot, RunEnd::kCancelled);
    if (program.saved >= last_step()) return end(slot, RunEnd::kFinished);
    if (happens(SweepFault::kOutOfMemory)) return end(slot, RunEnd::kInfeasible);
    if (happens(SweepFault::kProgramFails)) {
      program.saved = std::max(program.taken_over, program.saved - chance_.below(3));
      return end(slot, RunEnd::kFailed);
    }
    if (happens(SweepFault::kNodeLost)) {
      // Without a host the sweep would end; the next controller has all of them again.
      if (setup_.has_hosts && sweep_->usable_count() > 1) sweep_->set_aside(host_of(slot));
      return end(slot, RunEnd::kLost);
    }
    const auto values = do_step(run);
    run.at = now_ + pause();
    take(sweep_->on_report(slot, program.saved, values, now_));
  }

  void end(std::int32_t slot, RunEnd how) {
    runs_.erase(slot);
    take(sweep_->on_end(slot, how, "", now_));
  }

  void take(const SweepDecisions& decisions) {
    for (const Event& event : decisions.events) {
      events_.push_back(event);
      if (trace_) trace_(fmt::format("{:.3f} {}", now_, event_as_json(event).dump()));
    }
    for (const SweepAction& action : decisions.actions) {
      if (const auto* start = std::get_if<StartRun>(&action)) begin(*start);
      if (const auto* end = std::get_if<EndRun>(&action)) end_soon(*end);
    }
  }

  void begin(const StartRun& start) {
    const bool is_lost = sweep_->lost_hosts().contains(host_of(start.slot));
    if (runs_.contains(start.slot) || is_lost)
      fail(fmt::format("trial {} starts in slot {}, which is not free", start.trial, start.slot));
    Program& program = programs_[start.trial];
    program.reports.clear();
    if (start.exploited && std::exchange(program.taken_run, start.exploit_run) != start.exploit_run)
      program.saved = program.taken_over = start.exploited->step;
    runs_[start.slot] = {
        .trial = start.trial, .point = start.point, .until = start.until, .at = now_ + pause()};
  }

  void end_soon(const EndRun& end) {
    const auto run = runs_.find(end.slot);
    if (run == runs_.end()) return fail(fmt::format("slot {} has no run to end", end.slot));
    run->second.ends = true;
  }

  const SweepSetup& setup_;
  Chance chance_;
  std::function<void(const std::string&)> trace_;
  std::optional<Sweep> sweep_;
  std::map<std::int32_t, Run> runs_;          // by slot
  std::map<std::int32_t, Program> programs_;  // by trial
  std::vector<Event> events_;
  std::array<int, kSweepFaultCount> faults_{};
  int steps_ = 0;
  double now_ = 0;
};

// Values of earlier parameters must not be taken for values of the trial's own.
void check_values(const History& history, std::vector<std::string>& failures) {
  for (const Trial& trial : history.trials()) {
    const auto found = trial.measured.find(kMetric);
    if (found == trial.measured.end() || trial.old_metrics.contains(kMetric)) continue;
    for (const auto& [step, value] : found->second) {
      const bool is_old = !trial.exploits.empty() && step <= trial.exploits.back().step;
      if (!is_old && !std::isnan(value) && value != loss_of(trial.point, step))
        failures.push_back(
            fmt::format("trial {}: {} at step {} is not of its parameters", trial.number, value, step));
    }
  }
}

void compare_with_undisturbed(const SweepSetup& setup, std::uint64_t seed, const SweepWorld& world,
                              std::vector<std::string>& failures) {
  SweepSetup quiet = setup;
  quiet.chances = {};
  SweepWorld undisturbed(quiet, seed, {});
  undisturbed.run();
  const std::int64_t last_step = setup.settings.schedule.max_steps;
  const auto ours = outcome_of(world.history(), kMetric, last_step);
  const auto theirs = outcome_of(undisturbed.history(), kMetric, last_step);
  if (ours.size() != theirs.size())
    failures.push_back(fmt::format("{} trials, but {} without a fault", ours.size(), theirs.size()));
  for (std::size_t trial = 0; trial < std::min(ours.size(), theirs.size()); ++trial) {
    if (ours[trial] != theirs[trial])
      failures.push_back(fmt::format("trial {}: {}; without a fault: {}", trial, ours[trial], theirs[trial]));
  }
}

}  // namespace

std::string_view name_of(SweepFault fault) {
  constexpr std::array<std::string_view, kSweepFaultCount> kNames = {"program fails",
                                                                     "out of memory",
                                                                     "node lost",
                                                                     "value not finite",
                                                                     "metric missing",
                                                                     "controller killed",
                                                                     "steps that no controller hears",
                                                                     "steps after the order to end"};
  return kNames[static_cast<std::size_t>(fault)];
}

SweepSeedResult run_sweep_seed(std::uint64_t seed, const std::function<void(const std::string&)>& trace) {
  const SweepSetup setup = setup_of(seed);
  SweepWorld world(setup, seed, trace);
  world.run();
  SweepSeedResult result{.seed = seed,
                         .failures = world.failures_,
                         .faults = world.faults(),
                         .event_count = world.events().size(),
                         .summary = {}};
  SweepJudge judge(setup.settings, setup.retries, setup.slots);
  for (const Event& event : world.events()) judge.hear(event);
  if (result.failures.empty()) judge.hear_end();
  result.failures.insert(result.failures.end(), judge.faults().begin(), judge.faults().end());
  result.summary = judge.summary();
  check_values(world.history(), result.failures);
  if (setup.only_controller_dies && result.failures.empty())
    compare_with_undisturbed(setup, seed, world, result.failures);
  return result;
}

}  // namespace muster::simulation
