#include "launcher/core/verdict/hang.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

Stall stall(int rank, std::int64_t step, const std::string& section = "step", Duration since = 0s,
            bool stopped = false) {
  return {.rank = Rank(rank),
          .node = NodeId(0),
          .stopped = stopped,
          .what = "does not get on",
          .section = section,
          .step = step,
          .since = TimePoint(1000s) + since};
}

std::vector<int> suspects_of(const Hang& hang, const TrainingGroups& groups = {}) {
  std::vector<int> ranks;
  for (const Stall& each : hang.suspects(groups)) ranks.push_back(each.rank.value());
  return ranks;
}

std::vector<int> suspects_of(std::vector<Stall> stalls) {
  Hang hang;
  for (Stall& each : stalls) hang.add(std::move(each));
  return suspects_of(hang);
}

TEST(Hang, BlamesTheStoppedRank) {
  EXPECT_THAT(suspects_of({stall(0, 5), stall(1, 9, "step", 5s, true), stall(2, 3)}), ElementsAre(1));
  EXPECT_THAT(suspects_of({stall(0, 5, "", 2s, true), stall(1, 5, "", 1s, true)}), ElementsAre(1))
      << "each alone would be enough";
}

TEST(Hang, BlamesTheRankThatIsBehind) {
  EXPECT_THAT(suspects_of({stall(0, 5), stall(1, 4, "step", 5s), stall(2, 5)}), ElementsAre(1));
}

TEST(Hang, BlamesTheRankWithoutAGpuEvenIfItMissesSteps) {
  for (const bool hard : {false, true}) {
    Stall lost = stall(1, -1, "");
    lost.hard = true;
    Stall again = stall(1, 5, "step", 1s);
    again.hard = hard;
    EXPECT_THAT(suspects_of({stall(0, 5), lost, again, stall(2, 5)}), ElementsAre(1)) << hard;
  }
}

TEST(Hang, BlamesTheRankInAnotherSection) {
  EXPECT_THAT(suspects_of({stall(0, 5), stall(1, 5), stall(2, 5, "eval", 9s)}), ElementsAre(2));
}

TEST(Hang, BlamesNoRankIfAllLookTheSame) {
  EXPECT_THAT(suspects_of({stall(0, 5, "step", 2s), stall(1, 5, "step", 1s), stall(2, 5, "step", 3s)}),
              ElementsAre(1, 0, 2))
      << "who got stuck first comes first";
  EXPECT_THAT(suspects_of({stall(1, 5), stall(0, 5)}), ElementsAre(0, 1));
  EXPECT_THAT(suspects_of({stall(0, 5, "a", 2s), stall(1, 5, "b", 1s)}), ElementsAre(1, 0))
      << "without a majority";
  EXPECT_THAT(suspects_of({stall(0, 4, "", 2s), stall(1, 4, "", 1s), stall(2, 5)}), ElementsAre(1, 0))
      << "but rank 2 is at a later step";
}

TEST(Hang, BlamesTheRankOfTwoThatDoesNotWaitForTheOther) {
  Hang hang;
  hang.add(stall(0, 5));
  hang.add(stall(1, 5));
  hang.add_stacks(Rank(0), NodeId(0), "wait\nc10d::Work::wait()  (libtorch_cpu.so+0x1)\nmain\n");
  hang.add_stacks(Rank(1), NodeId(0), "wait\nmuster::Prefetcher::take()  (train+0x1)\nmain\n");
  EXPECT_THAT(suspects_of(hang), ElementsAre(1));
  hang.add_stacks(Rank(1), NodeId(0), "wait\nc10d::Work::wait()  (libtorch_cpu.so+0x1)\nmain\n");
  EXPECT_THAT(suspects_of(hang), ElementsAre(0, 1)) << "both wait";
  EXPECT_EQ(hang.place_of(hang.suspects()), "wait");
}

TEST(Hang, BlamesNoRankIfAStackDidNotArriveInTime) {
  Hang hang;
  hang.add(stall(0, 5));
  hang.add(stall(1, 5));
  hang.add_stacks(Rank(0), NodeId(0), "wait\nmuster::Prefetcher::take()  (train+0x1)\nmain\n");
  EXPECT_THAT(suspects_of(hang), ElementsAre(0, 1)) << "rank 1 may be anywhere";
}

TEST(Hang, BlamesASlowSectionThatAllStalledRanksWaitFor) {
  const std::string waits = "wait\nc10d::Work::wait()  (libtorch_cpu.so+0x1)\nmain\n";
  Hang hang;
  hang.add(stall(0, 5));
  hang.add_stacks(Rank(0), NodeId(0), waits);
  hang.add_stacks(Rank(1), NodeId(1), "write\nsave()  (train+0x1)\nmain\n");
  ASSERT_THAT(suspects_of(hang), ElementsAre(1));
  EXPECT_EQ(hang.suspects()[0].node, NodeId(1));
  EXPECT_EQ(hang.suspects()[0].what, "does not arrive where the others wait");
}

Hang all_wait_but(Rank culprit) {
  Hang hang;
  for (int i = 0; i < 4; ++i) {
    hang.add(stall(i, 5, "", std::chrono::seconds(i)));
    hang.add_stacks(Rank(i), NodeId(i / 2), Rank(i) == culprit ? "load_batch\nmain\n" : "all_reduce\nmain\n");
  }
  return hang;
}

TEST(Hang, BlamesTheRankWithADifferentStack) {
  EXPECT_THAT(suspects_of(all_wait_but(Rank(2))), ElementsAre(2))
      << "not of the first: all of them made step 5";
  EXPECT_THAT(suspects_of(all_wait_but(Rank(9))), ElementsAre(0, 1, 2, 3)) << "all are at one place";
}

TEST(Hang, BlamesARankThatIsAllowedToBeElsewhere) {
  Hang hang = all_wait_but(Rank(3));
  hang.moved(Rank(3), 6);
  ASSERT_THAT(suspects_of(hang), ElementsAre(3));
  EXPECT_EQ(hang.suspects()[0].node, NodeId(1));
  EXPECT_EQ(hang.suspects()[0].what, "does not arrive where the others wait");
  hang.moved(Rank(1), 6);
  EXPECT_THAT(suspects_of(hang), ElementsAre(0, 2)) << "rank 1 does not wait for rank 3";
}

// The groups 'a' (ranks 0 and 1) and 'b' (2 and 3).
TrainingGroups two_groups() {
  TrainingGroups groups;
  for (int rank = 0; rank < 4; ++rank) groups.trains_in(Rank(rank), rank < 2 ? "a" : "b");
  return groups;
}

constexpr const char* kWaits = "all_reduce\nc10d::Work::wait()  (libtorch_cpu.so+0x1)\nmain\n";

TEST(Hang, DoesNotBlameRanksThatTrainApart) {
  Hang hang;
  hang.add(stall(2, 5));
  hang.add(stall(3, 5));
  hang.add_stacks(Rank(0), NodeId(0), "multiply\nmain\n");
  hang.add_stacks(Rank(1), NodeId(0), "multiply\nmain\n");
  hang.add_stacks(Rank(2), NodeId(1), kWaits);
  hang.add_stacks(Rank(3), NodeId(1), kWaits);
  EXPECT_THAT(suspects_of(hang), ElementsAre(0, 1)) << "they might be where ranks 2 and 3 wait for them";
  EXPECT_THAT(suspects_of(hang, two_groups()), ElementsAre(2, 3));
  hang.add_stacks(Rank(3), NodeId(1), "multiply\nmain\n");
  EXPECT_THAT(suspects_of(hang, two_groups()), ElementsAre(3));
  EXPECT_THAT(hang.evidence(two_groups()),
              ElementsAre("rank 3: multiply", "rank 3: main", "rank 2: all_reduce"));
}

TEST(Hang, DoesNotBlameAGroupWithFewerSteps) {
  Hang hang;
  hang.add(stall(0, 3));  // a slow step
  for (const int rank : {2, 3}) {
    Stall hangs = stall(rank, 90 + rank);
    hangs.hard = true;
    hang.add(hangs);
  }
  EXPECT_THAT(suspects_of(hang), ElementsAre(0));
  EXPECT_THAT(suspects_of(hang, two_groups()), ElementsAre(2));
}

TEST(Hang, BlamesTheGroupThatAnotherWaitsFor) {
  Hang hang;
  for (int rank = 0; rank < 4; ++rank) {
    Stall hangs = stall(rank, rank < 2 ? 100 : 57, "", std::chrono::seconds(4 - rank));
    hangs.hard = true;
    hang.add(hangs);
    hang.add_stacks(Rank(rank), NodeId(0), rank == 3 ? "read\nmain\n" : kWaits);
  }
  EXPECT_THAT(suspects_of(hang, two_groups()), ElementsAre(3));
  hang.add_stacks(Rank(3), NodeId(1), kWaits);
  EXPECT_THAT(suspects_of(hang, two_groups()), ElementsAre(3, 2, 1, 0)) << "who got stuck first comes first";
}

TEST(Hang, SuspectsARankWithAnUnknownGroup) {
  TrainingGroups groups;
  groups.trains_in(Rank(0), "a");
  groups.trains_in(Rank(1), "a");
  groups.trains_in(Rank(2), "b");
  Hang hang;
  hang.add(stall(2, 5));
  hang.add_stacks(Rank(0), NodeId(0), "multiply\nmain\n");
  hang.add_stacks(Rank(2), NodeId(1), kWaits);
  hang.add_stacks(Rank(3), NodeId(1), "read\nmain\n");
  EXPECT_THAT(suspects_of(hang, groups), ElementsAre(3));
  EXPECT_TRUE(hang.knows_others_than(Rank(2), groups));
  EXPECT_FALSE(groups.is_alone(Rank(2), 4));
  groups.trains_in(Rank(3), "c");
  EXPECT_THAT(suspects_of(hang, groups), ElementsAre(2));
  EXPECT_FALSE(hang.knows_others_than(Rank(2), groups));
  EXPECT_TRUE(groups.is_alone(Rank(2), 4));
}

// Rank 0 meets each of the others in a group of two, so its own steps count for the world.
TEST(Hang, SuspectsARankOfTheWorldAndTheRanksThatItWaitsFor) {
  TrainingGroups groups;
  for (const auto& [rank, group] : {std::pair(0, ""), std::pair(1, "a"), std::pair(2, "b")})
    groups.trains_in(Rank(rank), group);
  EXPECT_FALSE(groups.is_alone(Rank(0), 3));
  EXPECT_FALSE(groups.is_alone(Rank(1), 3));
  const auto who_is_awaited = [&](int awaited, int hard, std::initializer_list<int> soft) {
    Hang hang;
    Stall hangs = stall(hard, 5);
    hangs.hard = true;
    hang.add(hangs);
    for (const int rank : soft) hang.add(stall(rank, 5));
    for (int rank = 0; rank < 3; ++rank)
      hang.add_stacks(Rank(rank), NodeId(0), rank == awaited ? "read\nmain\n" : kWaits);
    return suspects_of(hang, groups);
  };
  EXPECT_THAT(who_is_awaited(0, 1, {}), ElementsAre(0));
  EXPECT_THAT(who_is_awaited(0, 1, {0, 2}), ElementsAre(0));
  EXPECT_THAT(who_is_awaited(1, 0, {2}), ElementsAre(1));
}

TEST(Hang, ForgetsARankThatMadeProgress) {
  Hang hang;
  hang.add(stall(0, 4));
  hang.add(stall(1, 5));
  hang.moved(Rank(0), 4);
  EXPECT_EQ(hang.stalls().size(), 2U) << "a heartbeat of the same step is not progress";
  hang.moved(Rank(0), 5);
  ASSERT_EQ(hang.stalls().size(), 1U);
  EXPECT_THAT(suspects_of(hang), ElementsAre(1));
}

TEST(Hang, KeepsTheNewestStallOfARank) {
  Hang hang;
  hang.add(stall(0, 4));
  hang.add(stall(0, 6));
  ASSERT_EQ(hang.stalls().size(), 1U);
  EXPECT_EQ(hang.suspects().front().step, 6);
}

TEST(Hang, ShowsMoreOfTheCulpritsStacksThanOfTheOthers) {
  Hang hang;
  hang.add(stall(1, 4));
  hang.add_stacks(Rank(0), NodeId(0), "all_reduce\nmain\n");
  hang.add_stacks(Rank(1), NodeId(0), "\nread\nload_batch\nmain\n");
  hang.add_stacks(Rank(2), NodeId(0), "all_reduce\nother\n");
  EXPECT_THAT(hang.evidence(), ElementsAre("rank 1: read", "rank 1: load_batch", "rank 1: main",
                                           "2 ranks, such as 0: all_reduce"));
}

TEST(Hang, NamesTheRankThatHasNotEnteredACollective) {
  Hang hang;
  hang.add(stall(1, 4));
  hang.add_stacks(
      Rank(0), NodeId(0),
      "newest collective in group 'world': #9 broadcast of Long [2], finished up to #8\nall_reduce\nmain\n");
  hang.add_stacks(Rank(1), NodeId(0),
                  "newest collective in group 'world': #8 barrier, finished up to #8\nread\nmain\n");
  EXPECT_THAT(hang.evidence(),
              ElementsAre("rank 1: read", "rank 1: main",
                          "rank 1 has not entered collective 9 of group 'world': broadcast of Long [2]",
                          "rank 0: all_reduce"));
}

TEST(Hang, ShowsALineOfEachRankIfNoneIsSingledOut) {
  Hang hang;
  hang.add(stall(0, 4));
  hang.add(stall(1, 4));
  hang.add_stacks(Rank(0), NodeId(0), "read\nmain\n");
  hang.add_stacks(Rank(1), NodeId(0), "write\nmain\n");
  EXPECT_THAT(hang.evidence(), ElementsAre("rank 0: read", "rank 1: write"));
  EXPECT_EQ(hang.place_of(hang.suspects()), "");
}

}  // namespace
}  // namespace muster::launcher
