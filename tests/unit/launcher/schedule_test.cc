#include "launcher/core/sweep/schedule/schedule.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "tests/unit/launcher/schedule_trace.h"
#include "tests/unit/launcher/simulated_sweep.h"

namespace muster::launcher::sweep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- ASHA ----

TEST(Asha, PromotesWhoeverIsAmongTheBestThirdOfThoseThatHaveArrived) {
  Trace sweep(schedule_of(Scheduler::kAsha, 9, 9, 1));
  const std::string created = "new trial in bracket 0 until 1";
  sweep.create(3);
  EXPECT_EQ(sweep.report(1, 1, 0.5), "pause");
  EXPECT_EQ(sweep.slot(), created);  // trial 3: floor(1/3) = 0
  EXPECT_EQ(sweep.report(0, 1, 0.9), "pause");
  EXPECT_EQ(sweep.slot(), created);  // trial 4: floor(2/3) = 0
  EXPECT_EQ(sweep.report(2, 1, 0.7), "pause");
  EXPECT_EQ(sweep.slot(), "trial 1 until 3");  // the best of three
  EXPECT_EQ(sweep.report(3, 1, 0.4), "pause");
  EXPECT_EQ(sweep.slot(), "trial 3 until 3");  // the best of four now, though trial 1 has the place already
  EXPECT_EQ(sweep.report(4, 1, 0.8), "pause");
  EXPECT_EQ(sweep.slot(), created);  // trial 5: the best of five is promoted
  EXPECT_EQ(sweep.report(5, 1, 0.3), "pause");
  EXPECT_EQ(sweep.slot(), "trial 5 until 3");  // the best two of six: 5 and 3
  EXPECT_EQ(sweep.report(1, 3, 0.45), "pause");
  EXPECT_EQ(sweep.slot(), created);  // trial 6
  EXPECT_EQ(sweep.report(3, 3, 0.35), "pause");
  EXPECT_EQ(sweep.slot(), created);  // trial 7
  EXPECT_EQ(sweep.report(5, 3, 0.25), "pause");
  EXPECT_EQ(sweep.slot(), "trial 5 until 9");  // the upper rung comes first
  EXPECT_EQ(sweep.report(6, 1, 0.6), "pause");
  EXPECT_EQ(sweep.slot(), created);  // trial 8: the best two of seven are promoted
  EXPECT_EQ(sweep.report(7, 1, 0.2), "pause");
  EXPECT_EQ(sweep.slot(), "trial 7 until 3");  // the best two of eight: 7 and 5
  sweep.end(8, RunEnd::kInfeasible);
  EXPECT_EQ(sweep.slot(), "wait");  // the best three of nine: 7, 5 and 3
  EXPECT_EQ(sweep.report(5, 8, 0.2), "go on until 9");
  EXPECT_EQ(sweep.report(5, 9, 0.2), "stop");
  EXPECT_EQ(sweep.slot(), "wait");
  EXPECT_EQ(sweep.report(7, 3, 0.15), "pause");
  EXPECT_EQ(sweep.slot(), "trial 7 until 9");  // the best one of four
  EXPECT_EQ(sweep.report(7, 9, 0.1), "stop");
  EXPECT_EQ(sweep.slot(), "over");
}

TEST(Asha, PromotesFromTheUppermostRungFirst) {
  Trace sweep(schedule_of(Scheduler::kAsha, 12, 9, 1));
  sweep.create(9);
  for (std::int32_t trial = 0; trial < 9; ++trial) sweep.report(trial, 1, trial);
  for (const std::int32_t trial : {0, 1, 2}) EXPECT_EQ(sweep.slot(), fmt::format("trial {} until 3", trial));
  sweep.create(3);
  for (const std::int32_t trial : {0, 1, 2}) sweep.report(trial, 3, trial);
  for (const std::int32_t trial : {9, 10, 11}) sweep.report(trial, 1, -trial);
  EXPECT_EQ(sweep.slot(), "trial 0 until 9");
  EXPECT_EQ(sweep.slot(), "trial 11 until 3");
}

TEST(Asha, NeverPromotesWhatHasFailedOrHasNoValueButCountsIt) {
  Trace sweep(schedule_of(Scheduler::kAsha, 6, 9, 1));
  sweep.create(6);
  sweep.report(0, 1, NAN);
  sweep.end(1, RunEnd::kFailed);
  sweep.report(2, 1, INFINITY);
  EXPECT_EQ(sweep.slot(), "wait");
  sweep.report(3, 1, 0.5);
  EXPECT_EQ(sweep.slot(), "trial 3 until 3");
  sweep.end(4, RunEnd::kInfeasible);
  sweep.report(5, 1, 0.6);
  EXPECT_EQ(sweep.slot(), "trial 5 until 3");  // the second one of six
  EXPECT_EQ(sweep.slot(), "wait");
  sweep.end(3, RunEnd::kFailed);
  sweep.end(5, RunEnd::kFailed);
  EXPECT_EQ(sweep.slot(), "over");
}

TEST(Asha, BringsTheBestTrialToTheEndWhenTooFewAreLeftForAPromotion) {
  Trace sweep(schedule_of(Scheduler::kAsha, 2, 9, 1));
  sweep.create(2);
  sweep.report(0, 1, 0.6);
  EXPECT_EQ(sweep.slot(), "wait");
  sweep.report(1, 1, 0.5);
  EXPECT_EQ(sweep.slot(), "trial 1 until 3");
  sweep.report(1, 3, 0.5);
  EXPECT_EQ(sweep.slot(), "trial 1 until 9");
  sweep.end(1, RunEnd::kFailed);
  EXPECT_EQ(sweep.slot(), "trial 0 until 3");  // instead of the one that has failed
  sweep.report(0, 3, 0.5);
  EXPECT_EQ(sweep.slot(), "trial 0 until 9");
  sweep.report(0, 9, 0.4);
  EXPECT_EQ(sweep.slot(), "over");
}

TEST(Asha, MaximizesAndPrefersTheFirstOfEqualTrials) {
  ScheduleSettings settings = schedule_of(Scheduler::kAsha, 9, 9, 1);
  settings.objective.mode = Mode::kMax;
  Trace sweep(settings);
  sweep.create(3);
  sweep.report(2, 1, 0.8);
  sweep.report(1, 1, 0.8);
  sweep.report(0, 1, 0.7);
  EXPECT_EQ(sweep.slot(), "trial 1 until 3");
}

TEST(Asha, StopsAtTheLastStepIfItIsNoPowerOfEta) {
  Trace sweep(schedule_of(Scheduler::kAsha, 3, 10, 2));
  sweep.create(3);
  for (const std::int32_t trial : {0, 1, 2}) sweep.report(trial, 2, trial);
  EXPECT_EQ(sweep.slot(), "trial 0 until 6");
  sweep.report(0, 6, 0);
  EXPECT_EQ(sweep.slot(), "trial 0 until 10");
  EXPECT_EQ(sweep.report(0, 10, 0), "stop");
}

TEST(AshaStop, StopsWhoeverIsNotAmongTheBestThirdSoFar) {
  Trace sweep(schedule_of(Scheduler::kAshaStop, 7, 9, 1));
  sweep.create(7);
  EXPECT_EQ(sweep.report(0, 1, 0.5), "go on until 3");  // the first one
  EXPECT_EQ(sweep.report(1, 1, 0.6), "stop");           // not the best of two
  EXPECT_EQ(sweep.report(2, 1, 0.4), "go on until 3");  // the best of three
  EXPECT_EQ(sweep.report(3, 1, 0.45), "stop");          // not the best of four
  EXPECT_EQ(sweep.report(4, 1, NAN), "stop");
  EXPECT_EQ(sweep.report(5, 1, 0.42), "go on until 3");  // one of the best two of six
  EXPECT_EQ(sweep.report(0, 2, 0.9), "go on until 3");   // between two rungs
  EXPECT_EQ(sweep.report(0, 3, 0.5), "go on until 9");   // the first one at this rung
  EXPECT_EQ(sweep.report(2, 4, 0.6), "stop");            // its first value past the rung
  EXPECT_EQ(sweep.report(5, 3, 0.5), "go on until 9");   // as good as the best one
  EXPECT_EQ(sweep.report(0, 9, 0.5), "stop");
}

TEST(AshaStop, LooksAgainWhenALostTrialComesToTheRungAgain) {
  Trace sweep(schedule_of(Scheduler::kAshaStop, 3, 9, 3));
  sweep.create(2);
  sweep.report(0, 3, 0.5);
  sweep.report(1, 2, 0.9);
  sweep.end(1, RunEnd::kLost);
  EXPECT_EQ(sweep.slot(), "trial 1 until 3");
  EXPECT_EQ(sweep.report(1, 2, 0.9), "go on until 3");
  EXPECT_EQ(sweep.report(1, 3, 0.9), "stop");
}

TEST(AshaStop, DecidesOnceAtARungWhateverIsReportedLater) {
  Trace sweep(schedule_of(Scheduler::kAshaStop, 2, 9, 1));
  sweep.create(2);
  EXPECT_EQ(sweep.report(0, 3, 0.5), "go on until 9");
  EXPECT_EQ(sweep.report(1, 3, 0.4), "go on until 9");
  EXPECT_EQ(sweep.report(0, 2, 0.5), "go on until 9") << "an earlier step";
  sweep.report_other(0, 3, "accuracy");
  EXPECT_EQ(sweep.decide(0), "go on until 9");
  EXPECT_EQ(sweep.report(0, 4, 0.5), "go on until 9");
}

// ---- Hyperband ----

std::vector<std::string> rungs_told(const Preview& preview) {
  std::map<std::int32_t, std::string> brackets;
  for (const Rung& rung : preview.rungs)
    brackets[rung.bracket] += fmt::format("{} at {}, ", rung.trials, rung.steps);
  std::vector<std::string> all;
  for (const auto& [bracket, text] : brackets) all.push_back(text.substr(0, text.size() - 2));
  return all;
}

TEST(Hyperband, HasTheBracketsOfThePapersTable) {
  const Preview round = preview(schedule_of(Scheduler::kHyperband, 143, 81, 1));
  EXPECT_THAT(rungs_told(round),
              ElementsAre("81 at 1, 27 at 3, 9 at 9, 3 at 27, 1 at 81",  //
                          "34 at 3, 11 at 9, 3 at 27, 1 at 81",          //
                          "15 at 9, 5 at 27, 1 at 81",                   //
                          "8 at 27, 2 at 81",                            //
                          "5 at 81"));
  // By bracket: 81 + 2*27 + 6*9 + 18*3 + 54, 102 + 66 + 54 + 54, 135 + 90 + 54, 216 + 108, 405.
  EXPECT_EQ(round.steps, 297 + 276 + 279 + 324 + 405);
  EXPECT_EQ(round.all_steps, 143 * 81);
}

TEST(Hyperband, GivesEachBracketItsShareOfARoundThatIsCut) {
  EXPECT_THAT(rungs_told(preview(schedule_of(Scheduler::kHyperband, 17 + 9, 9, 1))),
              ElementsAre("9 at 1, 3 at 3, 1 at 9", "5 at 3, 1 at 9", "3 at 9",  //
                          "4 at 1, 1 at 3, 1 at 9", "3 at 3, 1 at 9", "2 at 9"));
}

TEST(Hyperband, PromotesWhenTheWholeRungHasArrivedAndStartsTheNextBracketMeanwhile) {
  Trace sweep(schedule_of(Scheduler::kHyperband, 17, 9, 1));
  sweep.create(9);
  for (const std::int32_t trial : {3, 1, 4, 2, 0, 7, 8}) sweep.report(trial, 1, 1 - 0.1 * trial);
  EXPECT_EQ(sweep.slot(), "new trial in bracket 1 until 3");  // trial 9: bracket 0 waits for 5 and 6
  sweep.report(5, 1, NAN);
  EXPECT_EQ(sweep.slot(), "new trial in bracket 1 until 3");
  sweep.end(6, RunEnd::kInfeasible);
  EXPECT_EQ(sweep.slot(), "trial 8 until 3");
  EXPECT_EQ(sweep.slot(), "trial 7 until 3");
  EXPECT_EQ(sweep.slot(), "trial 4 until 3");
  EXPECT_EQ(sweep.slot(), "new trial in bracket 1 until 3");  // trial 11
  sweep.report(8, 3, 0.3);
  sweep.end(7, RunEnd::kFailed);
  EXPECT_EQ(sweep.slot(), "new trial in bracket 1 until 3");
  sweep.report(4, 3, 0.2);
  EXPECT_EQ(sweep.slot(), "trial 4 until 9");  // the best one of three
  EXPECT_EQ(sweep.report(4, 9, 0.1), "stop");
  EXPECT_EQ(sweep.slot(), "new trial in bracket 1 until 3");  // trial 13, the last one of this bracket
  EXPECT_EQ(sweep.slot(), "new trial in bracket 2 until 9");
  EXPECT_EQ(sweep.slot(false), "wait");
}

TEST(Hyperband, PromotesTheShareOfASmallBracketWhenTheSearchHasNoOtherPoint) {
  Trace sweep(schedule_of(Scheduler::kHyperband, 17, 9, 1));
  sweep.create(4);
  for (const std::int32_t trial : {0, 1, 2, 3}) sweep.report(trial, 1, trial);
  EXPECT_EQ(sweep.slot(false), "trial 0 until 3");
  EXPECT_EQ(sweep.slot(false), "wait");
}

// ---- The median rule ----

TEST(MedianStop, StopsATrialWhoseBestValueIsWorseThanTheMedianOfRunningAverages) {
  Trace sweep(schedule_of(Scheduler::kMedian, 5, 100, 10));
  sweep.create(5);
  for (const std::int32_t trial : {0, 1, 2}) {
    EXPECT_EQ(sweep.report(trial, 5, 1), "go on until 10");
    EXPECT_EQ(sweep.report(trial, 10, 0.1 * trial), "go on until 20");  // fewer than three others
  }
  // The others' averages are 0.5, 0.55 and 0.6.
  EXPECT_EQ(sweep.report(3, 9, 0.9), "go on until 10");
  EXPECT_EQ(sweep.report(3, 10, 0.55), "go on until 20");  // not worse
  EXPECT_EQ(sweep.report(4, 9, 0.58), "go on until 10");   // no look within the grace period
  EXPECT_EQ(sweep.report(4, 11, 0.59), "go on until 20");  // nobody else has got to step 11
  sweep.report(0, 20, 0.2);
  sweep.report(1, 20, 0.2);
  sweep.report(2, 20, 0.2);
  // Now 0.4, 1.3 / 3 and 1.4 / 3.
  EXPECT_EQ(sweep.report(4, 20, 0.57), "stop");
  EXPECT_EQ(sweep.report(3, 20, 0.43), "go on until 30");  // the best one so far counts, not its average
}

TEST(MedianStop, ComparesWithWhatTheOthersHadAtTheSameStep) {
  Trace sweep(schedule_of(Scheduler::kMedian, 4, 100, 10));
  sweep.create(4);
  for (const std::int32_t trial : {0, 1, 2}) {
    sweep.report(trial, 10, 1);
    sweep.report(trial, 20, 0);
  }
  EXPECT_EQ(sweep.report(3, 10, 0.9), "go on until 20");
  EXPECT_EQ(sweep.report(3, 20, 0.6), "stop");
}

TEST(MedianStop, NeedsNoLastStep) {
  Trace sweep(schedule_of(Scheduler::kMedian, 1, 0, 10));
  EXPECT_EQ(sweep.slot(), "new trial in bracket 0 until 10");
  EXPECT_EQ(sweep.report(0, 1'000'000, 1), "go on until 1000010");
}

// ---- All of them ----

TEST(Schedule, ATrialWhoseRunWasLostOrHasFailedIsTheFirstThingAFreeSlotRuns) {
  for (const Scheduler kind : {Scheduler::kNone, Scheduler::kAsha, Scheduler::kAshaStop,
                               Scheduler::kHyperband, Scheduler::kMedian, Scheduler::kPbt}) {
    Trace sweep(schedule_of(kind, 9, 9, 1), 1);
    sweep.create(4);
    const std::int64_t until = sweep.trial(2).until;
    sweep.end(2, RunEnd::kLost);
    EXPECT_EQ(sweep.slot(), fmt::format("trial 2 until {}", until));
    sweep.end(2, RunEnd::kFailed);
    EXPECT_EQ(sweep.slot(), fmt::format("trial 2 until {}", until));
    sweep.end(2, RunEnd::kFailed);
    EXPECT_THAT(sweep.slot(), HasSubstr("new trial"));
  }
}

TEST(Schedule, AReportWithoutTheObjectiveEndsATrialOnlyPastTheLastStep) {
  Trace sweep(schedule_of(Scheduler::kAsha, 1, 9, 9));
  sweep.create(1);
  sweep.report_other(0, 9, "accuracy");
  EXPECT_EQ(sweep.decide(0), "go on until 9");
  sweep.report_other(0, 10, "accuracy");
  EXPECT_EQ(sweep.decide(0), "stop");
}

TEST(Schedule, WithoutASchedulerTrialsRunOneAfterTheOther) {
  Trace sweep(schedule_of(Scheduler::kNone, 2, 0, 1));
  EXPECT_EQ(sweep.slot(), "new trial in bracket 0 until 0");
  EXPECT_EQ(sweep.report(0, 100, 1), "go on until 0");
  EXPECT_EQ(sweep.slot(false), "wait");
  EXPECT_EQ(sweep.slot(), "new trial in bracket 0 until 0");
  sweep.end(0, RunEnd::kFinished);
  sweep.end(1, RunEnd::kFinished);
  EXPECT_EQ(sweep.slot(), "over");
}

TEST(Schedule, NamesTheFlagThatDoesNotFit) {
  const auto error = [](ScheduleSettings settings) {
    const Status status = check_schedule(settings);
    return status ? std::string("fits") : status.error().message();
  };
  ScheduleSettings one_eta = schedule_of(Scheduler::kAsha, 9, 9, 1);
  one_eta.eta = 1;
  ScheduleSettings no_metric = schedule_of(Scheduler::kPbt, 9, 9, 1);
  no_metric.objective.metric.clear();
  EXPECT_EQ(error(schedule_of(Scheduler::kAsha, 9, 9, 1)), "fits");
  EXPECT_EQ(error(schedule_of(Scheduler::kNone, 1, 0, 0)), "fits");
  EXPECT_EQ(error(schedule_of(Scheduler::kMedian, 1, 0, 5)), "fits");
  EXPECT_EQ(error(schedule_of(Scheduler::kAsha, 0, 9, 1)), "--trials 0: give at least 1");
  EXPECT_EQ(error(schedule_of(Scheduler::kHyperband, 9, 0, 1)), "--scheduler hyperband needs --max-steps");
  EXPECT_EQ(error(schedule_of(Scheduler::kNone, 9, -1, 1)), "--max-steps -1: give at least 1");
  EXPECT_EQ(error(schedule_of(Scheduler::kNone, 1 << 30, std::int64_t{1} << 40, 1)),
            "--max-steps 1099511627776: too large for 1073741824 trials");
  EXPECT_EQ(error(schedule_of(Scheduler::kMedian, 9, 9, 0)), "--grace-steps 0: give at least 1");
  EXPECT_EQ(error(schedule_of(Scheduler::kAshaStop, 9, 9, 10)),
            "--grace-steps 10: give at most --max-steps, which is 9");
  EXPECT_EQ(error(schedule_of(Scheduler::kPbt, 1, 9, 1)), "--trials 1: --scheduler pbt needs at least 2");
  EXPECT_EQ(error(one_eta), "--eta 1: give at least 2");
  EXPECT_EQ(error(no_metric), "--scheduler pbt needs --metric");
}

TEST(Schedule, PreviewsWhatGetsToEachRung) {
  const Preview asha = preview(schedule_of(Scheduler::kAsha, 100, 50, 2));
  EXPECT_THAT(rungs_told(asha), ElementsAre("100 at 2, 33 at 6, 11 at 18, 3 at 50"));
  EXPECT_EQ(asha.steps, 100 * 2 + 33 * 4 + 11 * 12 + 3 * 32);
  for (const Scheduler kind : {Scheduler::kNone, Scheduler::kMedian}) {
    EXPECT_THAT(rungs_told(preview(schedule_of(kind, 10, 9, 1))), ElementsAre("10 at 9"));
    EXPECT_THAT(preview(schedule_of(kind, 10, 0, 1)).rungs, testing::IsEmpty());
  }
  const Preview stop = preview(schedule_of(Scheduler::kAshaStop, 10, 9, 1));
  EXPECT_THAT(rungs_told(stop), ElementsAre("10 at 1, 10 at 3, 10 at 9"));
  EXPECT_EQ(stop.steps, stop.all_steps);
}

// ---- Properties ----

struct Arrived {
  double value;
  const Trial* trial;
};
// Sorted by value, without the counting of asha.cc.
std::vector<Arrived> arrived_at(const History& history, std::int64_t rung) {
  std::vector<Arrived> all;
  for (const Trial& trial : history.trials()) {
    const bool arrived = trial.state == TrialState::kPaused || trial.is_over();
    if (trial.until < rung || (trial.until == rung && !arrived)) continue;
    const double value = trial.value_at("loss", rung).value_or(NAN);
    const bool counts = trial.until > rung || trial.state == TrialState::kPaused;
    all.push_back({counts && !std::isnan(value) ? value : INFINITY, &trial});
  }
  std::ranges::sort(all, {}, [](const Arrived& each) { return std::pair(each.value, each.trial->number); });
  return all;
}

constexpr std::int64_t kRungs[] = {1, 3, 9, 27};

// The trials that algorithm 2 may promote, the upper rungs first.
std::vector<std::int32_t> promotable(const History& history) {
  std::vector<std::int32_t> numbers;
  for (const std::int64_t rung : {9, 3, 1}) {
    const std::vector<Arrived> arrived = arrived_at(history, rung);
    for (std::size_t i = 0; i < arrived.size() / 3; ++i)
      if (arrived[i].value < INFINITY && arrived[i].trial->until == rung && !arrived[i].trial->is_over())
        numbers.push_back(arrived[i].trial->number);
  }
  return numbers;
}

SimulatedSweep::Setup setup_of(Scheduler kind, std::uint64_t seed) {
  return {.settings = schedule_of(kind, 30, 27, 1),
          .slots = static_cast<int>(1 + seed % 7),
          .seed = seed,
          .failure = seed % 2 == 0 ? 0 : 0.01};
}

TEST(ScheduleProperties, EachSweepEndsWithNoTrialPastTheLastStep) {
  for (const Scheduler kind : {Scheduler::kNone, Scheduler::kAsha, Scheduler::kAshaStop,
                               Scheduler::kHyperband, Scheduler::kMedian, Scheduler::kPbt}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      SimulatedSweep sweep(setup_of(kind, seed));
      sweep.run();
      int to_the_end = 0;
      for (const Trial& trial : sweep.history().trials()) {
        EXPECT_LE(trial.newest_step(), 27);
        EXPECT_TRUE(trial.is_over() || trial.state == TrialState::kPaused);
        to_the_end += trial.newest_step() == 27;
      }
      EXPECT_EQ(sweep.history().trials().size(), 30);
      EXPECT_GE(to_the_end, 1) << static_cast<int>(kind) << " " << seed;
    }
  }
}

TEST(ScheduleProperties, ACopyOfTheHistoryLeadsToTheSameDecision) {
  for (const Scheduler kind :
       {Scheduler::kAsha, Scheduler::kAshaStop, Scheduler::kHyperband, Scheduler::kMedian, Scheduler::kPbt}) {
    const SimulatedSweep::Setup setup = setup_of(kind, 5);
    SimulatedSweep sweep(setup);
    sweep.on_slot = [&](const SlotDecision& decision) {
      const History copy = sweep.history();
      EXPECT_EQ(told(decision), told(next_for_slot(setup.settings, copy, true)));
    };
    sweep.on_report = [&](const ReportDecision& decision, std::int32_t trial) {
      const History copy = sweep.history();
      EXPECT_EQ(told(decision), told(after_report(setup.settings, copy, trial)));
    };
    sweep.run();
  }
}

TEST(ScheduleProperties, AshaPromotesExactlyWhatTheAlgorithmAllowsAndIsNeverIdle) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SimulatedSweep sweep(setup_of(Scheduler::kAsha, seed));
    sweep.on_slot = [&](const SlotDecision& decision) {
      const History& history = sweep.history();
      const auto* next = std::get_if<NextRun>(&decision.what);
      const bool is_again = next && sweep.trial(next->trial).state == TrialState::kWaiting;
      if (is_again || (next && history.running_count() == 0 && history.trials().size() == 30)) return;
      const std::vector<std::int32_t> best = promotable(history);
      if (next) {
        ASSERT_FALSE(best.empty());
        EXPECT_EQ(next->trial, best.front());
      } else {
        EXPECT_TRUE(best.empty()) << told(decision);
        if (history.trials().size() < 30) EXPECT_TRUE(std::holds_alternative<NewTrial>(decision.what));
      }
    };
    sweep.run();
  }
}

// The paper: in random order, ASHA promotes n / eta of n trials and about sqrt(n) more, too early.
TEST(ScheduleProperties, AshaPromotesLittleMoreThanItsShare) {
  double promoted = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedSweep::Setup setup = setup_of(Scheduler::kAsha, 2 * seed);
    setup.settings.trials = 81;
    SimulatedSweep sweep(setup);
    sweep.run();
    std::vector<std::size_t> counts;
    for (const std::int64_t rung : kRungs) counts.push_back(arrived_at(sweep.history(), rung).size());
    for (std::size_t at = 0; at + 1 < counts.size(); ++at) EXPECT_GE(counts[at + 1], counts[at] / 3);
    promoted += static_cast<double>(counts[1]);
  }
  EXPECT_LE(promoted / 20, 27 + 9);
}

TEST(ScheduleProperties, HyperbandKeepsTheSizesOfItsRungs) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const SimulatedSweep::Setup setup = setup_of(Scheduler::kHyperband, seed);
    SimulatedSweep sweep(setup);
    sweep.run();
    for (const Rung& rung : preview(setup.settings).rungs) {
      int count = 0;
      for (const Trial& trial : sweep.history().trials())
        count += trial.bracket == rung.bracket && trial.until >= rung.steps;
      EXPECT_LE(count, rung.trials);
      if (setup.failure == 0) EXPECT_EQ(count, rung.trials) << rung.bracket << " " << rung.steps;
    }
  }
}

TEST(ScheduleProperties, NoSlotIsIdleWhileAnotherTrialMayBeCreated) {
  for (const Scheduler kind :
       {Scheduler::kAsha, Scheduler::kAshaStop, Scheduler::kHyperband, Scheduler::kMedian, Scheduler::kPbt}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      SimulatedSweep sweep(setup_of(kind, seed));
      sweep.on_slot = [&](const SlotDecision& decision) {
        if (!std::holds_alternative<Wait>(decision.what)) return;
        EXPECT_EQ(sweep.history().trials().size(), 30);
        for (const Trial& trial : sweep.history().trials()) {
          EXPECT_NE(trial.state, TrialState::kWaiting);
          if (kind == Scheduler::kPbt) EXPECT_NE(trial.state, TrialState::kPaused);
        }
      };
      sweep.run();
    }
  }
}

}  // namespace
}  // namespace muster::launcher::sweep
