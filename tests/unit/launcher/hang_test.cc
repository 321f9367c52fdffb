#include "launcher/core/hang.h"

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

Rank culprit_of(std::vector<Stall> stalls) {
  Hang hang;
  for (Stall& each : stalls) hang.add(std::move(each));
  return hang.culprit().rank;
}

TEST(Hang, IsTheFaultOfTheOneThatIsStopped) {
  EXPECT_EQ(culprit_of({stall(0, 5), stall(1, 9, "step", 5s, true), stall(2, 3)}), Rank(1));
}

TEST(Hang, IsTheFaultOfTheOneThatIsBehind) {
  EXPECT_EQ(culprit_of({stall(0, 5), stall(1, 4, "step", 5s), stall(2, 5)}), Rank(1));
}

TEST(Hang, IsTheFaultOfTheOneThatIsElsewhere) {
  EXPECT_EQ(culprit_of({stall(0, 5), stall(1, 5), stall(2, 5, "eval", 9s)}), Rank(2));
}

TEST(Hang, IsTheFaultOfTheOneThatGotStuckFirst) {
  EXPECT_EQ(culprit_of({stall(0, 5, "step", 2s), stall(1, 5, "step", 1s), stall(2, 5, "step", 3s)}), Rank(1));
  EXPECT_EQ(culprit_of({stall(1, 5), stall(0, 5)}), Rank(0)) << "and of the lowest rank in a tie";
  EXPECT_EQ(culprit_of({stall(0, 5, "a", 2s), stall(1, 5, "b", 1s)}), Rank(1)) << "there is no majority";
}

Hang all_wait_but(Rank culprit) {
  Hang hang;
  for (int i = 0; i < 4; ++i) {
    hang.add(stall(i, 5, "", std::chrono::seconds(i)));
    hang.add_stacks(Rank(i), NodeId(i / 2), Rank(i) == culprit ? "load_batch\nmain\n" : "all_reduce\nmain\n");
  }
  return hang;
}

TEST(Hang, IsTheFaultOfTheOneWhoseStackIsUnlikeTheOthers) {
  EXPECT_EQ(all_wait_but(Rank(2)).culprit().rank, Rank(2)) << "not of the first: all of them made step 5";
  EXPECT_EQ(all_wait_but(Rank(9)).culprit().rank, Rank(0)) << "all are at one place";
}

TEST(Hang, IsTheFaultOfARankThatIsElsewhereAndMayBe) {
  Hang hang = all_wait_but(Rank(3));
  hang.moved(Rank(3), 6);
  EXPECT_EQ(hang.culprit().rank, Rank(3));
  EXPECT_EQ(hang.culprit().node, NodeId(1));
  EXPECT_EQ(hang.culprit().what, "does not come to where the others wait");
  hang.moved(Rank(1), 6);
  EXPECT_EQ(hang.culprit().rank, Rank(0)) << "rank 1 does not wait for rank 3";
}

TEST(Hang, ForgetsARankThatGotOn) {
  Hang hang;
  hang.add(stall(0, 4));
  hang.add(stall(1, 5));
  hang.moved(Rank(0), 4);
  EXPECT_EQ(hang.stalls().size(), 2U) << "a heartbeat of the same step is no progress";
  hang.moved(Rank(0), 5);
  ASSERT_EQ(hang.stalls().size(), 1U);
  EXPECT_EQ(hang.culprit().rank, Rank(1));
}

TEST(Hang, TakesTheNewestWordOnARank) {
  Hang hang;
  hang.add(stall(0, 4));
  hang.add(stall(0, 6));
  ASSERT_EQ(hang.stalls().size(), 1U);
  EXPECT_EQ(hang.culprit().step, 6);
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

}  // namespace
}  // namespace muster::launcher
