#include "runtime/checkpoint/save_policy.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace muster {
namespace {

using Action = SaveDecision::Action;
using std::chrono::seconds;

const TimePoint kStart = TimePoint() + std::chrono::hours(1);

TEST(FailedSaves, AreToldOnceUntilTheirCauseChanges) {
  FailedSaves failed;
  EXPECT_FALSE(failed.repeats("no space"));
  EXPECT_EQ(failed.end(), std::nullopt);
  failed.begin(40, "no space");
  EXPECT_TRUE(failed.repeats("no space"));
  EXPECT_TRUE(failed.repeats("no space"));
  EXPECT_FALSE(failed.repeats("read-only")) << "this one is told";
  EXPECT_EQ(failed.end(), "3 saves failed, from step 40 on: no space");
  failed.begin(70, "read-only");
  EXPECT_EQ(failed.end(), std::nullopt) << "it was told already";
  EXPECT_FALSE(failed.repeats("read-only")) << "a commit came between";
}

TEST(SaveInterval, FollowsYoungsFormulaAndSaysSo) {
  SaveInterval interval(std::nullopt, Seconds(7200));
  const TimePoint start = kStart;
  interval.saved(start, Seconds(0.25), Seconds(3));
  EXPECT_DOUBLE_EQ(interval.interval().count(), 60);
  EXPECT_EQ(
      interval.explanation(),
      "a checkpoint every 60 s: sqrt(2 x 0.250 s that a save holds training up x 7200 s between failures), "
      "and at least the 3.0 s until one is committed");
  EXPECT_EQ(interval.explanation(), std::nullopt) << "once";
  interval.saved(start, Seconds(0.25), Seconds(100));
  EXPECT_DOUBLE_EQ(interval.interval().count(), 100) << "the disk cannot write more often";
  EXPECT_TRUE(interval.explanation());
}

TEST(SaveInterval, CountsFailuresThatHaveHappened) {
  EXPECT_DOUBLE_EQ(mean_time_between_failures(Seconds(1000), 0, Seconds(0)).count(), 1000);
  EXPECT_DOUBLE_EQ(mean_time_between_failures(Seconds(1000), 4, Seconds(500)).count(), 300);
}

TEST(SaveInterval, IsOnTimeWithFewLooksEvenIfStepsSlowDown) {
  SaveInterval interval(Seconds(10), Seconds(1));
  const TimePoint start = kStart;
  double now = 0;
  std::int64_t next = 1;
  int looks = 0;
  std::vector<double> saves;
  for (std::int64_t step = 1; saves.size() < 4; ++step) {
    const double a_step = now < 15 ? 0.01 : 0.02;
    now += a_step;
    if (step < next) continue;
    ++looks;
    const auto look = interval.look(step, start + std::chrono::duration_cast<Duration>(Seconds(now)));
    ASSERT_GT(look.next_step, step);
    next = look.next_step;
    if (look.saves) saves.push_back(now);
  }
  double before = 0.01;
  for (const double save : saves) {
    EXPECT_NEAR(save - before, 10, 0.1);
    before = save;
  }
  EXPECT_LT(looks, 100) << "in some 3000 steps";
}

// One step of a training that gets no notice and whose clock has nothing due.
SaveDecision step(SavePolicy& policy) {
  (void)policy.on(StepDone{});
  return policy.after_step();
}

// A save from its begin to its end; its name.
std::string save(SavePolicy& policy, Status outcome = {}) {
  std::string name = policy.on(SaveBegun{}, kStart);
  policy.on(StateCopied{}, kStart);
  policy.on(SaveEnded{.outcome = std::move(outcome), .when = kStart});
  return name;
}

std::vector<std::int64_t> steps_with(Action action, SavePolicy& policy, int steps) {
  std::vector<std::int64_t> found;
  for (int i = 0; i < steps; ++i)
    if (step(policy).action == action) found.push_back(policy.steps());
  return found;
}

TEST(SavePolicy, SavesWhenTheStepIsAMultipleOfEvery) {
  SavePolicy policy({.every = 3});
  EXPECT_THAT(steps_with(Action::kSave, policy, 10), testing::ElementsAre(3, 6, 9));
}

TEST(SavePolicy, HoldsACopyInMemoryUnlessTheStepGoesToTheDisk) {
  SavePolicy policy({.every = 10, .memory_every = 5});
  EXPECT_THAT(steps_with(Action::kHoldInMemory, policy, 30), testing::ElementsAre(5, 15, 25));
}

TEST(SavePolicy, PreparesTheMemoryOnceAtTheFirstStepThatSavesNothing) {
  SavePolicy late({.every = 1000, .memory_every = 5});
  EXPECT_THAT(steps_with(Action::kPrepareMemory, late, 20), testing::ElementsAre(1));
  SavePolicy at_once({.every = 1000, .memory_every = 1});
  EXPECT_THAT(steps_with(Action::kPrepareMemory, at_once, 20), testing::IsEmpty());
}

TEST(SavePolicy, PreparesTheFirstSaveOnceAndNotAfterIt) {
  SavePolicy policy({.every = 3});
  EXPECT_TRUE(policy.on(StepDone{}).prepare);
  EXPECT_FALSE(policy.on(StepDone{}).prepare);
  SavePolicy saved({.every = 3});
  save(saved);
  EXPECT_FALSE(saved.on(StepDone{}).prepare);
}

TEST(SavePolicy, NamesEachSaveOnce) {
  SavePolicy policy({.every = 1});
  step(policy);
  EXPECT_EQ(save(policy, failure(ErrorCode::kUnavailable, "no space")), "save/0/1/1");
  EXPECT_EQ(save(policy), "save/0/1/2");
  step(policy);
  EXPECT_EQ(save(policy), "save/0/2/1");
  EXPECT_EQ(policy.on(RestoreBegun{}), "restore/1");
  policy.on(RestoreEnded{.step = 1, .is_on_disk = true});
  step(policy);
  EXPECT_EQ(save(policy), "save/1/2/1");
  EXPECT_EQ(policy.name_of_step("due"), "due/1/2");
}

TEST(SavePolicy, SavesOnRequestWhatIsNotSavedYet) {
  SavePolicy policy({.every = 100});
  EXPECT_EQ(policy.on_request().action, Action::kSave) << "the state before the first step";
  save(policy);
  EXPECT_EQ(policy.on_request().action, Action::kNothing);
  step(policy);
  EXPECT_EQ(policy.on_request().action, Action::kSave);
}

TEST(SavePolicy, TriesAgainOnRequestOnlyIfAllRanksKnowOfTheFailure) {
  const auto again = [](ErrorCode code) {
    SavePolicy policy({.every = 100});
    step(policy);
    save(policy, failure(code, "why"));
    return policy.on_request().action == Action::kSave;
  };
  EXPECT_TRUE(again(ErrorCode::kUnavailable));
  EXPECT_TRUE(again(ErrorCode::kCorrupt));
  EXPECT_FALSE(again(ErrorCode::kTimedOut)) << "this rank alone has not heard the decision";
  EXPECT_FALSE(again(ErrorCode::kInternal));
}

TEST(SavePolicy, ARestoredCheckpointIsNotSavedAgainAndACopyFromMemoryIs) {
  for (const bool is_on_disk : {true, false}) {
    SavePolicy policy({.every = 100, .unread = 7});
    policy.on(RestoreBegun{});
    EXPECT_EQ(policy.unread(), 7U) << "until the restore has ended";
    policy.on(RestoreEnded{.step = 7, .is_on_disk = is_on_disk});
    EXPECT_EQ(policy.unread(), std::nullopt);
    EXPECT_EQ(policy.steps(), 7);
    EXPECT_EQ(policy.on_request().action, is_on_disk ? Action::kNothing : Action::kSave);
    EXPECT_EQ(policy.newest_committed(), is_on_disk ? std::optional<std::int64_t>(7) : std::nullopt);
  }
}

TEST(SavePolicy, KnowsTheNewestCommittedStepAndWhetherTheStateIsRefused) {
  SavePolicy policy({.every = 1});
  step(policy);
  save(policy);
  step(policy);
  save(policy, failure(ErrorCode::kCorrupt, "a NaN"));
  EXPECT_EQ(policy.newest_committed(), 1);
  EXPECT_TRUE(policy.is_refusing());
  step(policy);
  save(policy, failure(ErrorCode::kUnavailable, "no space"));
  EXPECT_TRUE(policy.is_refusing()) << "nobody has seen that the state is good again";
  save(policy);
  EXPECT_FALSE(policy.is_refusing());
  EXPECT_EQ(policy.newest_committed(), 3);
}

TEST(SavePolicy, ARestoreForgetsTheFailureBeforeIt) {
  SavePolicy policy({.every = 1});
  step(policy);
  save(policy, failure(ErrorCode::kFenced, "a newer attempt"));
  policy.on(RestoreBegun{});
  EXPECT_TRUE(policy.outcome());
}

TEST(SavePolicy, OnNoticeItSavesTheAgreedStepAndLeaves) {
  SavePolicy policy({.every = 100});
  EXPECT_FALSE(policy.on(StepDone{}).stop);
  EXPECT_TRUE(policy.on(StepDone{.is_preemption_noticed = true}).stop);
  EXPECT_FALSE(policy.on(StopHeard{}).is_new) << "not agreed yet";
  EXPECT_EQ(policy.after_step().action, Action::kNothing);
  (void)policy.on(StepDone{.is_preemption_noticed = true});
  EXPECT_TRUE(policy.on(StopHeard{.step = 4}).is_new);
  EXPECT_EQ(policy.after_step().action, Action::kNothing) << "step 3";
  (void)policy.on(StepDone{.is_preemption_noticed = true});
  const auto news = policy.on(StopHeard{.step = 4});
  EXPECT_FALSE(news.is_new);
  EXPECT_FALSE(news.is_missed);
  const SaveDecision last = policy.after_step();
  EXPECT_EQ(last.action, Action::kSave);
  EXPECT_TRUE(last.leaves);
  save(policy);
  EXPECT_EQ(policy.leaving(), SavePolicy::Leaving::kLeaves);
}

TEST(SavePolicy, TriesToLeaveOnceAndGoesOnIfTheLastSaveFails) {
  SavePolicy policy({.every = 100});
  (void)policy.on(StepDone{.is_preemption_noticed = true});
  (void)policy.on(StopHeard{.step = 1});
  EXPECT_TRUE(policy.after_step().leaves);
  save(policy, failure(ErrorCode::kUnavailable, "no space"));
  EXPECT_EQ(policy.leaving(), SavePolicy::Leaving::kGoesOn);
  EXPECT_FALSE(policy.on(StepDone{.is_preemption_noticed = true}).stop);
  EXPECT_FALSE(policy.after_step().leaves);
  save(policy, failure(ErrorCode::kCorrupt, "a NaN"));
  EXPECT_EQ(policy.leaving(), SavePolicy::Leaving::kRefused);
}

TEST(SavePolicy, ARankThatIsPastTheAgreedStepSaysSoAndDoesNotLeave) {
  SavePolicy policy({.every = 100});
  for (int i = 0; i < 5; ++i) (void)policy.on(StepDone{.is_preemption_noticed = true});
  EXPECT_TRUE(policy.on(StopHeard{.step = 4}).is_missed);
  EXPECT_EQ(policy.after_step(), SaveDecision{});
}

// Only rank 0 of three has a clock: all hear what it says.
TEST(SavePolicy, AllRanksSaveTheSameStepsByRank0sClock) {
  std::mt19937 random(11);
  const SaveSetting setting{.every = 40, .interval = SaveInterval(Seconds(10), Seconds(1)), .unread = {}};
  std::vector<SavePolicy> ranks(3, SavePolicy(setting));
  TimePoint now = kStart;
  int looks = 0, saves = 0, by_clock = 0;
  for (int i = 0; i < 1000; ++i) {
    now += std::chrono::milliseconds(50 + random() % 100);
    std::vector<bool> asks;
    for (SavePolicy& rank : ranks) asks.push_back(rank.on(StepDone{}).clock);
    ASSERT_THAT(asks, testing::Each(asks.front())) << "or a rank would wait for a word that nobody says";
    if (asks.front()) {
      ++looks;
      const auto look = ranks.front().look(now);
      for (SavePolicy& rank : ranks) rank.on(ClockHeard{look});
      by_clock += look.saves ? 1 : 0;
    }
    std::vector<SaveDecision> decisions;
    for (SavePolicy& rank : ranks) decisions.push_back(rank.after_step());
    ASSERT_THAT(decisions, testing::Each(decisions.front()));
    if (decisions.front().action != Action::kSave) continue;
    ++saves;
    for (SavePolicy& rank : ranks) {
      rank.on(SaveBegun{}, now);
      rank.on(StateCopied{}, now + std::chrono::milliseconds(10));
      rank.on(SaveEnded{.outcome = {}, .when = now + seconds(1)});
    }
  }
  EXPECT_EQ(by_clock, 0) << "40 steps take 4 s: each save by steps puts the clock's off";
  EXPECT_EQ(saves, 1000 / 40);
  EXPECT_LT(looks, 500);
}

TEST(SavePolicy, TheIntervalFollowsWhatSavesCost) {
  SavePolicy policy({.every = 0, .interval = SaveInterval(std::nullopt, Seconds(7200)), .unread = {}});
  (void)policy.on(StepDone{});
  policy.on(SaveBegun{}, kStart);
  policy.on(StateCopied{}, kStart + std::chrono::milliseconds(250));
  policy.on(SaveEnded{.outcome = {}, .when = kStart + seconds(3)});
  EXPECT_THAT(policy.explain_interval().value_or(""), testing::HasSubstr("every 60 s: sqrt(2 x 0.250 s"));
  EXPECT_FALSE(policy.look(kStart + seconds(59)).saves);
  EXPECT_TRUE(policy.look(kStart + seconds(61)).saves);
}

}  // namespace
}  // namespace muster
