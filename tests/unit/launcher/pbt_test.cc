#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <vector>

#include "tests/unit/launcher/schedule_trace.h"

namespace muster::launcher::sweep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Pbt, TheWorstQuarterTakesOverTheBest) {
  Trace sweep(schedule_of(Scheduler::kPbt, 4, 30, 10));
  sweep.create(4);
  EXPECT_EQ(sweep.slot(), "wait");
  EXPECT_EQ(sweep.report(0, 10, 0.1), "go on until 20");
  EXPECT_EQ(sweep.report(1, 10, 0.4),
            "go on until 20");  // the worst of two, but two others have no value yet
  EXPECT_EQ(sweep.report(2, 10, 0.2), "go on until 20");
  EXPECT_EQ(sweep.report(3, 9, 0.9), "go on until 10");
  EXPECT_EQ(sweep.report(3, 10, 0.5), "take over trial 0");
  EXPECT_EQ(sweep.slot(), "trial 3 until 20");  // it goes on from step 10
  EXPECT_EQ(sweep.report(3, 11, 0.1), "go on until 20");
  EXPECT_EQ(sweep.report(0, 20, 0.3), "go on until 30");
  EXPECT_EQ(sweep.report(1, 20, 0.2), "go on until 30");
  EXPECT_EQ(sweep.report(2, 20, 0.1), "go on until 30");
  EXPECT_EQ(sweep.report(3, 20, NAN), "take over trial 2");
  EXPECT_EQ(sweep.report(2, 30, 0.1), "stop");
}

TEST(Pbt, TakesOverARandomOneOfTheBestQuarter) {
  std::set<std::string> taken;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ScheduleSettings settings = schedule_of(Scheduler::kPbt, 8, 30, 10);
    settings.seed = seed;
    Trace sweep(settings);
    sweep.create(8);
    for (const std::int32_t trial : {0, 1, 2, 3, 4, 5, 6}) sweep.report(trial, 10, trial);
    taken.insert(sweep.report(7, 10, 7));
  }
  EXPECT_THAT(taken, ElementsAre("take over trial 0", "take over trial 1"));
}

// Trial 0 is the worst in each round, and the first to report. Trials 0 and 1 count as the worst two until
// they get to another interval.
TEST(Pbt, ComparesWithTheNewestValuesOfTrialsThatAreBehind) {
  Trace sweep(schedule_of(Scheduler::kPbt, 8, 8, 2));
  sweep.create(8);
  for (std::int32_t trial = 0; trial < 8; ++trial)
    EXPECT_EQ(sweep.report(trial, 2, 8 - trial), "go on until 4");
  EXPECT_THAT(sweep.report(0, 4, 8), HasSubstr("take over trial"));
  EXPECT_THAT(sweep.report(1, 4, 7), HasSubstr("take over trial"));
  EXPECT_EQ(sweep.report(2, 4, 6), "pause");   // the other two wait for slots
  EXPECT_EQ(sweep.slot(), "trial 0 until 4");  // it goes on from step 2
  EXPECT_EQ(sweep.slot(), "trial 1 until 4");
  EXPECT_EQ(sweep.slot(), "trial 2 until 6");
  EXPECT_EQ(sweep.report(3, 4, 5), "go on until 6");
  EXPECT_EQ(sweep.report(2, 6, 9), "go on until 8");
  EXPECT_EQ(sweep.report(0, 4, 1), "go on until 6");  // with its new parameters
}

TEST(Pbt, TheOrderOfTheFirstReportsReplacesNobody) {
  std::vector<std::int32_t> order = {0, 1, 2, 3, 4, 5, 6, 7};
  do {
    Trace sweep(schedule_of(Scheduler::kPbt, 8, 8, 2));
    sweep.create(8);
    for (const std::int32_t trial : order)
      if (sweep.report(trial, 2, 8 - trial).starts_with("take over")) EXPECT_LE(trial, 1);
    std::ranges::rotate(order, order.begin() + 3);
  } while (order.front() != 0);
  Trace sweep(schedule_of(Scheduler::kPbt, 8, 8, 2));
  sweep.create(8);
  int replaced = 0;
  for (std::int32_t trial = 7; trial >= 0; --trial)
    replaced += sweep.report(trial, 2, 8 - trial).starts_with("take over") ? 1 : 0;
  EXPECT_EQ(replaced, 2);
}

// A trial that is far ahead is compared with the few that have a value.
TEST(Pbt, AFastTrialDoesNotWaitForTheSlowOnes) {
  Trace sweep(schedule_of(Scheduler::kPbt, 8, 8, 2));
  sweep.create(8);
  EXPECT_EQ(sweep.report(0, 2, 9), "go on until 4");
  EXPECT_EQ(sweep.report(0, 4, 9), "go on until 6");  // nobody else has a value
  EXPECT_EQ(sweep.report(5, 2, 1), "go on until 4");
  EXPECT_EQ(sweep.report(0, 6, 9), "take over trial 5");
}

TEST(Pbt, TrialsThatAreOverDoNotCount) {
  Trace sweep(schedule_of(Scheduler::kPbt, 4, 8, 2));
  sweep.create(4);
  for (const std::int32_t trial : {0, 1, 2}) sweep.report(trial, 2, trial);
  sweep.end(0, RunEnd::kFinished);
  sweep.end(3, RunEnd::kInfeasible);
  EXPECT_EQ(sweep.report(2, 4, 2), "take over trial 1");
}

// Trial 3 is the worst but one.
TEST(Pbt, ComparesAllTrialsIfThereAreMoreThanThePopulationHas) {
  History history;
  const double losses[] = {1, 2, 4, 3};
  for (std::int32_t trial = 0; trial < 4; ++trial) {
    ASSERT_TRUE(history.apply(TrialCreated{.trial = trial}));
    ASSERT_TRUE(history.apply(RunBegan{.trial = trial, .until = 10}));
    ASSERT_TRUE(history.apply(Reported{.trial = trial, .step = 10, .values = {{"loss", losses[trial]}}}));
  }
  const ReportDecision decision = after_report(schedule_of(Scheduler::kPbt, 2, 30, 10), history, 3);
  EXPECT_TRUE(std::holds_alternative<GoOn>(decision.what)) << decision.reason;
}

TEST(Pbt, TakesTurnsIfThereAreFewerSlotsThanTrials) {
  Trace sweep(schedule_of(Scheduler::kPbt, 3, 30, 10));
  sweep.create(1);
  EXPECT_EQ(sweep.report(0, 10, 0.1), "pause");
  sweep.create(1);
  EXPECT_EQ(sweep.report(1, 10, 0.2), "pause");  // the worst of two, but trial 2 may be worse
  sweep.create(1);
  EXPECT_EQ(sweep.report(2, 10, 0.05), "pause");
  EXPECT_EQ(sweep.slot(), "trial 0 until 20");
  EXPECT_EQ(sweep.report(0, 20, 0.1), "pause");
  EXPECT_EQ(sweep.slot(), "trial 1 until 20");
  EXPECT_EQ(sweep.report(1, 20, 0.2), "take over trial 2");  // a population of three has a worst one too
  EXPECT_EQ(sweep.slot(), "trial 2 until 20");
  EXPECT_EQ(sweep.report(2, 20, 0.3), "pause");  // trial 1 has not shown what it gained
}

}  // namespace
}  // namespace muster::launcher::sweep
