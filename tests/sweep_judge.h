// Judges a sweep by its events alone: folds them, and asks searcher and scheduler again before each decision.
// Counts runs and steps itself as well.
#pragma once

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/sweep/sweep.h"

namespace muster::launcher::sweep {

// Each trial's state and point, and its value at the step where it was ended: the facts that decide about a
// sweep. A run that is to end may do a few steps more.
inline std::vector<std::string> outcome_of(const History& history, const std::string& metric,
                                           std::int64_t last_step) {
  std::vector<std::string> lines;
  for (const Trial& trial : history.trials()) {
    const std::int64_t step = trial.state == TrialState::kFinished ? last_step : trial.until;
    lines.push_back(fmt::format("{} {} {} {}", name_of(trial.state), point_as_json(trial.point).dump(), step,
                                trial.value_at(metric, step).value_or(-1)));
  }
  return lines;
}

class SweepJudge {
 public:
  // `parallel`: how many trials may run at once; 0: any number.
  SweepJudge(const SweepSettings& settings, std::int32_t retries, std::int32_t parallel)
      : settings_(settings), retries_(retries), parallel_(parallel), history_({retries}) {}

  void hear(const Event& event) {
    if (exploit_due_ && !std::holds_alternative<Exploited>(event))
      wrong(*exploit_due_, "was paused to take over another trial, and did not");
    std::visit([this](const auto& each) { check(each); }, event);
    if (const Status applied = history_.apply(event); !applied) faults_.push_back(applied.error().message());
    if (const auto* reported = std::get_if<Reported>(&event)) note_wish(reported->trial);
    ++event_count_;
  }
  void hear_end() {
    for (const auto& [number, account] : accounts_) {
      if (account.running) wrong(number, "is left running");
      if (!account.running && !account.over && account.runs == 0) wrong(number, "has never run");
    }
    if (!std::holds_alternative<Over>(next().what)) wrong(-1, "the sweep ended, but a trial can run");
  }
  const std::vector<std::string>& faults() const { return faults_; }
  std::string summary() const {
    std::map<std::string_view, int> states;
    for (const Trial& trial : history_.trials()) ++states[name_of(trial.state)];
    std::string text = fmt::format("{} trials", history_.trials().size());
    for (const auto& [state, count] : states) text += fmt::format(", {} {}", count, state);
    text += fmt::format("; {} events", event_count_);
    for (const auto& [end, count] : ends_) text += fmt::format(", {} runs {}", count, name_of(end));
    return text + fmt::format(", {} took over another trial", exploit_count_);
  }

 private:
  struct Account {
    std::int32_t runs = 0;
    std::int32_t failures = 0;
    bool running = false;
    bool over = false;
    std::map<std::string, std::set<std::int64_t>> steps{};  // by metric
    std::set<std::string> old{};           // metrics without a report since the trial took over another one
    std::optional<ReportDecision> wish{};  // the first thing that a report of this run led to
  };

  void wrong(std::int32_t trial, std::string_view what) {
    faults_.push_back(fmt::format("event {}: trial {}: {}", event_count_, trial, what));
  }
  // Says what a free slot must do. The searcher's points may be used up.
  SlotDecision next() const {
    SlotDecision decision = next_for_slot(settings_.schedule, history_, /*points_left=*/true);
    const bool wants_point = std::holds_alternative<NewTrial>(decision.what);
    if (!wants_point || suggest(settings_.search, settings_.space, history_)) return decision;
    return next_for_slot(settings_.schedule, history_, /*points_left=*/false);
  }

  void check(const TrialCreated& created) {
    if (std::cmp_not_equal(created.trial, accounts_.size())) wrong(created.trial, "leaves a gap");
    const SlotDecision decision = next();
    const auto* wanted = std::get_if<NewTrial>(&decision.what);
    if (wanted == nullptr) wrong(created.trial, "was created, but: " + decision.reason);
    if (wanted != nullptr && wanted->bracket != created.bracket)
      wrong(created.trial, fmt::format("is in bracket {}, not {}", created.bracket, wanted->bracket));
    const auto suggestion = suggest(settings_.search, settings_.space, history_);
    if (!suggestion || suggestion->point != created.point)
      wrong(created.trial, fmt::format("has {}, but the search says {}", point_as_json(created.point).dump(),
                                       suggestion ? point_as_json(suggestion->point).dump() : "nothing"));
    accounts_[created.trial];
  }
  void check(const RunBegan& began) {
    Account& account = accounts_[began.trial];
    if (account.over) wrong(began.trial, "runs, but is over");
    if (account.running) wrong(began.trial, "runs twice at once");
    if (began.run != account.runs) wrong(began.trial, fmt::format("run {} is not the next", began.run));
    const auto running =
        std::ranges::count_if(accounts_, [](const auto& each) { return each.second.running; });
    if (parallel_ > 0 && running >= parallel_) wrong(began.trial, "runs, but no slot is free");
    const SlotDecision decision = next();
    const auto* wanted = std::get_if<NextRun>(&decision.what);
    if (wanted == nullptr)
      wrong(began.trial, "runs, but: " + decision.reason);
    else if (wanted->trial != began.trial || wanted->until != began.until)
      wrong(began.trial, fmt::format("runs until {}, but trial {} until {} is next", began.until,
                                     wanted->trial, wanted->until));
    account.running = true;
    account.wish.reset();
    ++account.runs;
  }
  void check(const Reported& reported) {
    Account& account = accounts_[reported.trial];
    if (!account.running) wrong(reported.trial, "reports, but does not run");
    check_time(reported.trial, reported.at);
    for (const auto& [metric, value] : reported.values) {
      if (account.old.erase(metric) > 0) forget_from(account.steps[metric], reported.step);
      if (!account.steps[metric].insert(reported.step).second)
        wrong(reported.trial, fmt::format("has two values of {} at step {}", metric, reported.step));
    }
  }
  void check(const RunEnded& ended) {
    Account& account = accounts_[ended.trial];
    if (!account.running || ended.run != account.runs - 1)
      wrong(ended.trial, fmt::format("run {} ended, but does not run", ended.run));
    check_time(ended.trial, ended.at);
    const bool to_stop = account.wish && std::holds_alternative<Stop>(account.wish->what);
    const bool to_pause = account.wish && !to_stop;
    if (ended.end == RunEnd::kPaused && !to_pause) wrong(ended.trial, "was paused for nothing");
    if (ended.end == RunEnd::kStopped && !to_stop) wrong(ended.trial, "was stopped for nothing");
    if (account.wish && (ended.end == RunEnd::kLost || ended.end == RunEnd::kCancelled))
      wrong(ended.trial, fmt::format("is {}, but was to end: {}", name_of(ended.end), account.wish->reason));
    if (to_pause && ended.end == RunEnd::kPaused && std::holds_alternative<Exploit>(account.wish->what))
      exploit_due_ = ended.trial;
    account.running = false;
    if (ended.end == RunEnd::kFailed) ++account.failures;
    account.over = ended.end == RunEnd::kFinished || ended.end == RunEnd::kStopped ||
                   ended.end == RunEnd::kInfeasible || account.failures > retries_;
    ++ends_[ended.end];
  }
  void check(const Exploited& exploited) {
    const std::int32_t number = exploited.trial;
    const auto& trials = history_.trials();
    const auto* wish = exploit_due_ == number ? std::get_if<Exploit>(&accounts_[number].wish->what) : nullptr;
    exploit_due_.reset();
    if (wish == nullptr || wish->from != exploited.from || std::cmp_greater_equal(wish->from, trials.size()))
      return wrong(number, fmt::format("took over trial {} for nothing", exploited.from));
    const Trial& donor = trials[static_cast<std::size_t>(wish->from)];
    if (exploited.step != donor.reached_step())
      wrong(number, fmt::format("took over step {}, but the other one is at {}", exploited.step,
                                donor.reached_step()));
    if (exploited.point != perturbed(settings_.space, donor.point, settings_.search.seed, exploit_count_))
      wrong(number, "has a point that is not the perturbed one");
    ++exploit_count_;
    for (auto& [metric, steps] : accounts_[number].steps) {
      accounts_[number].old.insert(metric);
      forget_from(steps, exploited.step + 1);
    }
  }

  static void forget_from(std::set<std::int64_t>& steps, std::int64_t first) {
    steps.erase(steps.lower_bound(first), steps.end());
  }
  void check_time(std::int32_t trial, double at) {
    if (at < newest_at_) wrong(trial, fmt::format("{} s is before {} s", at, newest_at_));
    newest_at_ = at;
  }
  void note_wish(std::int32_t number) {
    std::optional<ReportDecision>& wish = accounts_[number].wish;
    if (wish || std::cmp_greater_equal(number, history_.trials().size())) return;
    ReportDecision decision = after_report(settings_.schedule, history_, number);
    if (!std::holds_alternative<GoOn>(decision.what)) wish = std::move(decision);
  }

  const SweepSettings& settings_;  // must outlive this object
  std::int32_t retries_;
  std::int32_t parallel_;
  History history_;
  std::map<std::int32_t, Account> accounts_;
  std::optional<std::int32_t> exploit_due_;
  std::uint64_t exploit_count_ = 0;
  std::map<RunEnd, int> ends_;
  std::size_t event_count_ = 0;
  double newest_at_ = 0;
  std::vector<std::string> faults_;
};

}  // namespace muster::launcher::sweep
