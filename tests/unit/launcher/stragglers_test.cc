#include "launcher/core/job/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace muster::launcher {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

Duration duration_of_ms(double count) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(count));
}

constexpr int kStepsToTell = Stragglers::kWindowSteps * Stragglers::kWindowCount;

// Makes steps in which the ranks take these times; returns all changes.
std::vector<Stragglers::Change> step_all(Stragglers& stragglers, const std::vector<double>& times, int steps,
                                         const std::vector<std::string>& groups = {}) {
  std::vector<Stragglers::Change> told;
  for (int step = 0; step < steps; ++step) {
    for (std::size_t rank = 0; rank < times.size(); ++rank)
      for (const auto& change :
           stragglers.stepped(Rank(static_cast<std::int32_t>(rank)), groups.empty() ? "" : groups[rank],
                              duration_of_ms(times[rank])))
        told.push_back(change);
  }
  return told;
}

TEST(Stragglers, ReportsASlowRankOnceWithItsTimes) {
  Stragglers stragglers(4);
  EXPECT_THAT(step_all(stragglers, {100, 101, 99, 130}, kStepsToTell - 1), IsEmpty());
  const auto told = step_all(stragglers, {100, 101, 99, 130}, 1);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].rank, Rank(3));
  EXPECT_TRUE(told[0].slower);
  EXPECT_EQ(told[0].busy, duration_of_ms(130));
  EXPECT_EQ(told[0].usual, duration_of_ms(100.5));
  EXPECT_THAT(step_all(stragglers, {100, 101, 99, 130}, 10 * kStepsToTell), IsEmpty());
}

TEST(Stragglers, ReportsTheEndOnce) {
  Stragglers stragglers(4);
  step_all(stragglers, {100, 101, 99, 130}, kStepsToTell);
  EXPECT_THAT(step_all(stragglers, {100, 101, 99, 102}, kStepsToTell - 1), IsEmpty());
  const auto told = step_all(stragglers, {100, 101, 99, 102}, 1);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].rank, Rank(3));
  EXPECT_FALSE(told[0].slower);
  EXPECT_THAT(step_all(stragglers, {100, 101, 99, 102}, 10 * kStepsToTell), IsEmpty());
}

TEST(Stragglers, AWindowLikeTheOthersBreaksTheRow) {
  Stragglers stragglers(3);
  for (int round = 0; round < 5; ++round) {
    EXPECT_THAT(step_all(stragglers, {100, 150, 100}, kStepsToTell - Stragglers::kWindowSteps), IsEmpty());
    EXPECT_THAT(step_all(stragglers, {100, 100, 100}, Stragglers::kWindowSteps), IsEmpty());
  }
}

TEST(Stragglers, TwentyPercentMoreIsUsualEvenIfTheOthersAreEqual) {
  Stragglers stragglers(4);
  EXPECT_THAT(step_all(stragglers, {100, 100, 100, 119}, 10 * kStepsToTell), IsEmpty());
}

TEST(Stragglers, RanksThatDifferWidelyAreNotBlamed) {
  Stragglers stragglers(5);
  EXPECT_THAT(step_all(stragglers, {60, 80, 100, 120, 140}, 10 * kStepsToTell), IsEmpty());
}

TEST(Stragglers, WithTwoRanksTheLimitIsHalfAsLongAgain) {
  Stragglers stragglers(2);
  EXPECT_THAT(step_all(stragglers, {140, 100}, 10 * kStepsToTell), IsEmpty());
  const auto told = step_all(stragglers, {160, 100}, kStepsToTell);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].rank, Rank(0));
  EXPECT_EQ(told[0].usual, duration_of_ms(100));
}

TEST(Stragglers, ReportsNothingForOneRankOrBeforeAllReport) {
  Stragglers alone(1);
  EXPECT_THAT(step_all(alone, {100}, 10 * kStepsToTell), IsEmpty());
  Stragglers silent(3);
  EXPECT_THAT(step_all(silent, {100, 0, 200}, 10 * kStepsToTell), IsEmpty());
}

TEST(Stragglers, OnlyRanksOfOneGroupAreCompared) {
  const std::vector<std::string> groups{"a", "b", "a", "b"};
  Stragglers stragglers(4);
  EXPECT_THAT(step_all(stragglers, {100, 300, 101, 301}, 10 * kStepsToTell, groups), IsEmpty());
  const auto told = step_all(stragglers, {100, 460, 101, 300}, kStepsToTell + 1, groups);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].rank, Rank(1));
  EXPECT_EQ(told[0].usual, duration_of_ms(300));
}

TEST(Stragglers, AGroupDoesNotWaitForTheWindowsOfAnother) {
  Stragglers stragglers(5);
  std::vector<Rank> told;
  for (int step = 0; step <= kStepsToTell; ++step) {
    for (const int rank : {0, 1})
      for (const auto& change : stragglers.stepped(Rank(rank), "fast", duration_of_ms(10 * (rank + 1))))
        told.push_back(change.rank);
    if (step % Stragglers::kWindowSteps == 0) stragglers.stepped(Rank(2), "slow", duration_of_ms(100));
  }
  EXPECT_THAT(told, testing::ElementsAre(Rank(1)));
}

TEST(Stragglers, ARankThatChangesItsGroupIsMeasuredAfreshThere) {
  Stragglers stragglers(4);
  const std::vector<std::string> pairs{"a", "a", "b", "b"};
  step_all(stragglers, {100, 100, 300, 300}, kStepsToTell - 1);
  EXPECT_THAT(step_all(stragglers, {100, 100, 300, 300}, 10 * kStepsToTell, pairs), IsEmpty());
  const auto told = step_all(stragglers, {100, 100, 300, 100}, Stragglers::kWindowSteps + kStepsToTell);
  ASSERT_THAT(told, SizeIs(1)) << "all train together again";
  EXPECT_EQ(told[0].rank, Rank(2));
}

TEST(Stragglers, AnOccasionalStepWithAllLeavesARankInItsGroup) {
  Stragglers stragglers(4);
  std::vector<Stragglers::Change> told;
  for (int step = 0; step < 2 * kStepsToTell; ++step) {
    const bool with_all = step % 5 == 4;  // such as for a metric of the world
    const std::vector<std::string> groups =
        with_all ? std::vector<std::string>(4) : std::vector<std::string>{"a", "a", "b", "b"};
    for (const auto& change : step_all(stragglers, {100, 200, 300, 300}, 1, groups)) told.push_back(change);
  }
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].rank, Rank(1));
  // A rank that trains with all from now on is compared with all.
  told = step_all(stragglers, {100, 100, 100, 300}, 2 * kStepsToTell);
  EXPECT_TRUE(
      std::ranges::any_of(told, [](const auto& each) { return each.rank == Rank(3) && each.slower; }));
}

TEST(Stragglers, AFullWindowDoesNotWaitForARankThatLeftTheGroup) {
  Stragglers stragglers(3);
  step_all(stragglers, {100, 200, 0}, Stragglers::kWindowSteps);
  const auto told = step_all(stragglers, {100, 200, 0}, kStepsToTell, {"", "", "elsewhere"});
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].rank, Rank(1));
}

struct Tally {
  int right = 0, wrong = 0, in_five_windows = 0;
  double precision() const { return static_cast<double>(right) / (right + wrong); }
};

// 200 runs of four ranks: 100 ms per step with a jitter of 5 %, and some steps that take 200 ms longer. In
// half of the runs each step of rank 2 takes 30 ms more.
Tally simulate(double hiccup_share) {
  Tally tally;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> jitter(0, 5);
    std::bernoulli_distribution hiccup(hiccup_share);
    Stragglers stragglers(4);
    for (int step = 1; step <= 10 * kStepsToTell; ++step) {
      for (std::int32_t rank = 0; rank < 4; ++rank) {
        const bool slow = seed % 2 == 0 && rank == 2;
        const double time = 100 + (slow ? 30 : 0) + jitter(random) + (hiccup(random) ? 200 : 0);
        for (const auto& change : stragglers.stepped(Rank(rank), "", duration_of_ms(time))) {
          const bool is_right = change.slower && seed % 2 == 0 && change.rank == Rank(2);
          ++(is_right ? tally.right : tally.wrong);
          if (is_right && step <= kStepsToTell) ++tally.in_five_windows;
        }
      }
    }
  }
  return tally;
}

TEST(Stragglers, FindsOnlyTheSlowRankAmongJitteringRanksInFiveWindows) {
  const Tally tally = simulate(0);
  EXPECT_EQ(tally.right, 100);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(tally.in_five_windows, 100);
}

TEST(Stragglers, FindsTheSlowRankDespiteHiccupsAndHardlyAnyOther) {
  const Tally tally = simulate(0.01);
  EXPECT_GE(tally.right, 100);
  EXPECT_GE(tally.precision(), 0.95) << tally.wrong;
  EXPECT_GE(tally.in_five_windows, 90);
}

}  // namespace
}  // namespace muster::launcher
