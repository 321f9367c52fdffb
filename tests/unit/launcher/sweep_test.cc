// Whole sweeps in one thread, with programs that are functions: decisions, ends, and controllers that are
// killed.
#include "launcher/core/sweep/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sweep_judge.h"

namespace muster::launcher::sweep {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kLastStep = 9;

SweepSettings settings_of(SearchSettings::Kind search, ScheduleSettings::Kind schedule, std::uint64_t seed) {
  SweepSettings settings;
  settings.space = *parse_space("x=uniform:0:1,y=int:1:8,z=choice:a:b:c");
  const Objective objective{"loss", Mode::kMin};
  settings.search = {.kind = search, .objectives = {objective}, .seed = seed};
  settings.schedule = {.kind = schedule,
                       .objective = objective,
                       .trials = 12,
                       .max_steps = kLastStep,
                       .grace_steps = 1,
                       .eta = 3,
                       .seed = seed};
  for (const Rung& rung : preview(settings.schedule).rungs) settings.search.rungs.push_back(rung.steps);
  return settings;
}

double loss_of(const Point& point, std::int64_t step) {
  const double x = std::get<double>(point.at("x"));
  const auto y = static_cast<double>(std::get<std::int64_t>(point.at("y")));
  return (x - 0.3) * (x - 0.3) + 0.01 * y + 1.0 / static_cast<double>(step);
}

// The programs of a sweep and their checkpoints, which outlive the controller. A program saves in each step.
class Programs {
 public:
  // Runs the sweep until it is over, or until `batches` transactions of its journal were written: then the
  // controller is gone. `unheard`: how many steps its programs do after that.
  void run(Sweep& sweep, std::size_t slot_count, std::size_t batches, std::int64_t unheard) {
    left_ = batches;
    running_.clear();
    for (std::size_t slot = 0; slot < slot_count && left_ > 0; ++slot)
      take(sweep.add_slot(static_cast<std::int32_t>(slot), ""), sweep);
    while (left_ > 0 && !sweep.is_over()) {
      ASSERT_FALSE(running_.empty()) << "the sweep waits for nothing";
      const auto slot = next_slot();
      step(slot, sweep);
    }
    if (sweep.is_over()) return;
    for (const auto& [slot, run] : running_) {
      std::int64_t& done = done_[run.trial];
      for (std::int64_t i = 0; i < unheard && done < kLastStep; ++i) ++done;
    }
  }
  // A new controller finds the programs' reports before it goes on.
  void tell_lost(Sweep& sweep) {
    for (std::size_t number = 0; number < sweep.history().trials().size(); ++number) {
      const Trial trial = sweep.history().trials()[number];
      if (trial.state != TrialState::kRunning) continue;
      const std::int64_t done = done_[trial.number];
      for (std::int64_t at = std::max<std::int64_t>(trial.counts_from, 0) + 1; at <= done; ++at)
        keep(sweep.on_found(trial.number, at, {{"loss", loss_of(trial.point, at)}}, 0));
      keep(sweep.on_lost(trial.number, done >= kLastStep, 0));
    }
  }
  const std::vector<Event>& events() const { return events_; }

 private:
  struct Run {
    std::int32_t trial = 0;
    Point point;
    bool ends = false;
  };

  std::int32_t next_slot() {
    auto found = running_.upper_bound(last_slot_);
    if (found == running_.end()) found = running_.begin();
    return last_slot_ = found->first;
  }
  void step(std::int32_t slot, Sweep& sweep) {
    Run& run = running_.at(slot);
    if (run.ends || done_[run.trial] >= kLastStep) {
      const RunEnd end = run.ends ? RunEnd::kCancelled : RunEnd::kFinished;
      running_.erase(slot);
      return take(sweep.on_end(slot, end, "", 0), sweep);
    }
    const std::int64_t done = ++done_[run.trial];
    take(sweep.on_report(slot, done, {{"loss", loss_of(run.point, done)}}, 0), sweep);
  }
  void keep(const SweepDecisions& decisions) {
    events_.insert(events_.end(), decisions.events.begin(), decisions.events.end());
  }
  void take(const SweepDecisions& decisions, const Sweep&) {
    if (left_ == 0) return;
    if (!decisions.events.empty()) --left_;
    keep(decisions);
    if (left_ == 0) return;  // killed after the transaction
    for (const SweepAction& action : decisions.actions) {
      if (const auto* start = std::get_if<StartRun>(&action)) {
        running_[start->slot] = {start->trial, start->point};
        if (start->exploited && std::exchange(taken_[start->trial], start->exploit_run) != start->exploit_run)
          done_[start->trial] = start->exploited->step;
      }
      if (const auto* end = std::get_if<EndRun>(&action)) running_.at(end->slot).ends = true;
    }
  }

  std::size_t left_ = 0;  // transactions until the controller is killed
  std::int32_t last_slot_ = -1;
  std::map<std::int32_t, Run> running_;         // by slot
  std::map<std::int32_t, std::int64_t> done_;   // steps, by trial
  std::map<std::int32_t, std::int32_t> taken_;  // the run of the newest checkpoint taken over, by trial
  std::vector<Event> events_;
};

constexpr std::size_t kNever = 1'000'000;

std::vector<std::string> outcome_of(const History& history) {
  return outcome_of(history, "loss", kLastStep);
}

History folded(const std::vector<Event>& events) {
  History history;
  for (const Event& event : events) {
    const Status applied = history.apply(event);
    EXPECT_TRUE(applied) << applied.error().message();
  }
  return history;
}

using Kinds = std::tuple<SearchSettings::Kind, ScheduleSettings::Kind>;
class SweepOfKind : public testing::TestWithParam<Kinds> {
 protected:
  SweepSettings settings(std::uint64_t seed) const {
    return settings_of(std::get<0>(GetParam()), std::get<1>(GetParam()), seed);
  }
};

TEST_P(SweepOfKind, ExplainsEveryDecisionByTheHistory) {
  for (const std::size_t slots : {1U, 3U}) {
    Sweep sweep(settings(7));
    Programs programs;
    programs.run(sweep, slots, kNever, 0);
    EXPECT_TRUE(sweep.is_over());
    EXPECT_EQ(outcome_of(sweep.history()), outcome_of(folded(programs.events())));
    const SweepSettings same = settings(7);
    SweepJudge judge(same, /*retries=*/0, static_cast<std::int32_t>(slots));
    for (const Event& event : programs.events()) judge.hear(event);
    judge.hear_end();
    EXPECT_THAT(judge.faults(), testing::IsEmpty());
  }
}

// With one slot. After each transaction of the journal, the controller is killed and another one goes on.
TEST_P(SweepOfKind, IsTheSameWhereverItsControllerIsKilled) {
  Sweep undisturbed(settings(3));
  Programs whole;
  whole.run(undisturbed, 1, kNever, 0);
  const auto expected = outcome_of(undisturbed.history());
  for (std::size_t batches = 1;; ++batches) {
    Programs programs;
    Sweep first(settings(3));
    // PBT compares after each step here, so a step that nobody heard would be one comparison less.
    const bool compares_each = std::get<1>(GetParam()) == ScheduleSettings::Kind::kPbt;
    programs.run(first, 1, batches, compares_each ? 0 : static_cast<std::int64_t>(batches % 3));
    if (first.is_over()) break;
    Sweep second(settings(3));
    for (const Event& event : programs.events()) ASSERT_TRUE(second.replay(event));
    programs.tell_lost(second);
    programs.run(second, 1, kNever, 0);
    ASSERT_EQ(outcome_of(second.history()), expected) << "killed after transaction " << batches;
    ASSERT_EQ(outcome_of(second.history()), outcome_of(folded(programs.events())));
  }
}

INSTANTIATE_TEST_SUITE_P(All, SweepOfKind,
                         testing::Values(Kinds{SearchSettings::Kind::kRandom, ScheduleSettings::Kind::kNone},
                                         Kinds{SearchSettings::Kind::kTpe, ScheduleSettings::Kind::kNone},
                                         Kinds{SearchSettings::Kind::kRandom, ScheduleSettings::Kind::kAsha},
                                         Kinds{SearchSettings::Kind::kTpe, ScheduleSettings::Kind::kAshaStop},
                                         Kinds{SearchSettings::Kind::kBohb,
                                               ScheduleSettings::Kind::kHyperband},
                                         Kinds{SearchSettings::Kind::kSobol, ScheduleSettings::Kind::kMedian},
                                         Kinds{SearchSettings::Kind::kRandom, ScheduleSettings::Kind::kPbt}));

TEST(Sweep, FreesASlotAndGoesOnWithoutALostHost) {
  Sweep sweep(settings_of(SearchSettings::Kind::kRandom, ScheduleSettings::Kind::kNone, 1), {.retries = 1});
  ASSERT_EQ(sweep.add_slot(0, "a", 0, {"a"}).actions.size(), 1U);
  ASSERT_EQ(sweep.add_slot(1, "b", 0, {"b"}).actions.size(), 1U);
  EXPECT_FALSE(sweep.set_aside("c"));
  EXPECT_TRUE(sweep.set_aside("a"));
  EXPECT_FALSE(sweep.set_aside("a")) << "it is known already";
  const auto lost = sweep.on_end(0, RunEnd::kLost, "node0 was lost", 1);
  EXPECT_TRUE(lost.actions.empty()) << "slot 0 takes no more trials";
  const auto next = sweep.on_end(1, RunEnd::kFailed, "exit code 1", 2);
  ASSERT_EQ(next.actions.size(), 1U);
  EXPECT_EQ(std::get<StartRun>(next.actions[0]).trial, 0) << "the lost trial comes first";
  EXPECT_EQ(sweep.history().trials()[0].failure_count, 0);
  EXPECT_EQ(sweep.history().trials()[1].failure_count, 1);
}

TEST(Sweep, EndsWithoutHostsWhenTheRunsThereHaveEndedAndGoesOnWithOthers) {
  Sweep sweep(settings_of(SearchSettings::Kind::kRandom, ScheduleSettings::Kind::kNone, 1));
  sweep.add_slot(0, "a, b", 0, {"a", "b"});
  sweep.add_slot(1, "b, c", 0, {"b", "c"});
  EXPECT_TRUE(sweep.set_aside("b"));
  EXPECT_TRUE(sweep.on_end(0, RunEnd::kLost, "node1 was lost", 1).actions.empty()) << "the other one runs";
  const auto last = sweep.on_end(1, RunEnd::kFinished, "", 2);
  ASSERT_EQ(last.actions.size(), 1U);
  EXPECT_EQ(std::get<SweepOver>(last.actions[0]).reason, "no host is left");
  EXPECT_TRUE(sweep.lacks_hosts());
  EXPECT_EQ(sweep.history().trials()[0].state, TrialState::kWaiting);
  EXPECT_THAT(sweep.taken_hosts(), ElementsAre("b"));
  EXPECT_EQ(sweep.usable_count(), 0U);
  EXPECT_EQ(std::get<StartRun>(sweep.add_slot(2, "a, c", 3, {"a", "c"}).actions.at(0)).trial, 0);
  EXPECT_FALSE(sweep.lacks_hosts() || sweep.is_over());
  EXPECT_THAT(sweep.taken_hosts(), ElementsAre("a", "b", "c"));
}

// A sweep without hosts cannot set one aside.
TEST(Sweep, FailsATrialThatIsLostThreeTimesInARow) {
  Sweep sweep(settings_of(SearchSettings::Kind::kRandom, ScheduleSettings::Kind::kNone, 1));
  sweep.add_slot(0, "slot 0");
  const auto lose = [&sweep] { return sweep.on_end(0, RunEnd::kLost, "node0 was lost", 0); };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(std::get<StartRun>(lose().actions.at(0)).trial, 0);
  sweep.on_report(0, 1, {{"loss", 1}}, 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(std::get<StartRun>(lose().actions.at(0)).trial, 0) << "it got on";
  sweep.on_report(0, 1, {{"loss", 1}}, 0);
  EXPECT_EQ(std::get<StartRun>(lose().actions.at(0)).trial, 1) << "it repeated a step";
  EXPECT_EQ(sweep.history().trials()[0].state, TrialState::kFailed);
  EXPECT_EQ(sweep.history().trials()[0].text, "lost 3 times in a row without a new report: node0 was lost");
}

// The scheduler has decided already: another run would not be looked at before the next rung.
TEST(Sweep, DoesNotRepeatATrialThatIsLostWhileItIsEnded) {
  for (const auto& [schedule, end] : {std::pair{ScheduleSettings::Kind::kAshaStop, RunEnd::kStopped},
                                      std::pair{ScheduleSettings::Kind::kAsha, RunEnd::kPaused}}) {
    Sweep sweep(settings_of(SearchSettings::Kind::kRandom, schedule, 1));
    sweep.add_slot(0, "a");
    ASSERT_EQ(sweep.on_report(0, 1, {{"loss", NAN}}, 0).actions.size(), 1U);
    const auto lost = sweep.on_end(0, RunEnd::kLost, "node0 was lost", 1);
    EXPECT_EQ(std::get<RunEnded>(lost.events.at(0)).end, end);
    EXPECT_EQ(std::get<StartRun>(lost.actions.at(0)).trial, 1);
  }
}

TEST(Sweep, EndsAllRunsWhenItIsCancelled) {
  Sweep sweep(settings_of(SearchSettings::Kind::kRandom, ScheduleSettings::Kind::kNone, 1));
  sweep.add_slot(0, "a");
  sweep.add_slot(1, "b");
  EXPECT_EQ(sweep.cancel("Ctrl-C").actions.size(), 2U);
  EXPECT_TRUE(sweep.cancel("Ctrl-C").actions.empty()) << "they are ending";
  EXPECT_TRUE(sweep.on_end(0, RunEnd::kCancelled, "", 1).actions.empty());
  const auto last = sweep.on_end(1, RunEnd::kFinished, "", 1);
  ASSERT_EQ(last.actions.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<SweepOver>(last.actions[0]));
  EXPECT_TRUE(sweep.is_over());
}

TEST(Sweep, IgnoresWhatATrialReportsTwice) {
  Sweep sweep(settings_of(SearchSettings::Kind::kRandom, ScheduleSettings::Kind::kNone, 1));
  sweep.add_slot(0, "a");
  EXPECT_EQ(sweep.on_report(0, 1, {{"loss", 3}, {"accuracy", 0.5}}, 0).events.size(), 1U);
  EXPECT_TRUE(sweep.on_report(0, 1, {{"loss", 4}}, 0).events.empty());
  EXPECT_EQ(sweep.on_report(0, 2, {{"loss", 2}}, 0).events.size(), 1U);
  EXPECT_TRUE(sweep.on_report(0, 1, {{"loss", 9}}, 0).events.empty());
  EXPECT_EQ(sweep.history().trials()[0].newest("loss"), 2);
}

// It began again at an older checkpoint than that of its newest report.
TEST(Sweep, TakesReportsOfEarlierSteps) {
  Sweep sweep(settings_of(SearchSettings::Kind::kRandom, ScheduleSettings::Kind::kNone, 1));
  sweep.add_slot(0, "a");
  EXPECT_EQ(sweep.on_report(0, 8, {{"loss", 3}}, 0).events.size(), 1U);
  EXPECT_EQ(sweep.on_report(0, 5, {{"loss", 4}}, 0).events.size(), 1U);
  EXPECT_TRUE(sweep.on_report(0, 8, {{"loss", 7}}, 0).events.empty());
  EXPECT_EQ(sweep.on_report(0, kLastStep, {{"loss", 2}}, 0).actions.size(), 1U);
  EXPECT_EQ(sweep.on_report(0, 7, {{"loss", 9}}, 0).events.size(), 1U);
  EXPECT_EQ(sweep.history().trials()[0].newest("loss"), 2);
  const auto end = sweep.on_end(0, RunEnd::kCancelled, "", 1);
  EXPECT_EQ(std::get<RunEnded>(end.events.at(0)).end, RunEnd::kFinished) << "it has reported the last step";
}

}  // namespace
}  // namespace muster::launcher::sweep
