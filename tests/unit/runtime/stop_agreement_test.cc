#include <gtest/gtest.h>
#include <random>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "runtime/checkpoint/meeting.h"

namespace muster {
namespace {

// Three ranks whose store is one object, so that a test decides who comes when.
class StopAgreements : public testing::Test {
 protected:
  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  StopAgreement ranks[3] = {{store, 0, 3}, {store, 1, 3}, {store, 2, 3}};
};

TEST_F(StopAgreements, WaitUntilAllHaveNoticeAndStopTwoStepsAfterTheHighest) {
  EXPECT_EQ(ranks[0].ask(10), std::nullopt);
  EXPECT_EQ(ranks[0].ask(11), std::nullopt);
  EXPECT_EQ(ranks[2].ask(11), std::nullopt);
  EXPECT_EQ(ranks[1].ask(12), 14);
  EXPECT_EQ(ranks[0].ask(13), 14);
  EXPECT_EQ(ranks[2].ask(13), 14);
  EXPECT_EQ(ranks[0].ask(14), 14);
}

TEST_F(StopAgreements, OfASecondCheckpointerAreTheirOwn) {
  for (int rank : {0, 1, 2}) ranks[rank].ask(10);
  EXPECT_EQ(StopAgreement(store, 0, 3).ask(20), std::nullopt);
}

// Ranks in step: none begins step s + 1 before all have begun s. Each hears the notice when it likes.
TEST_F(StopAgreements, ReachEveryRankBeforeItsLastStepHoweverTheRanksAreDelayed) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 500; ++trial) {
    const auto shared = c10::make_intrusive<c10d::HashStore>();
    StopAgreement agreement[3] = {{shared, 0, 3}, {shared, 1, 3}, {shared, 2, 3}};
    int noticed_at[3], done[3] = {0, 0, 0};
    for (int& step : noticed_at) step = static_cast<int>(random() % 20);
    int stopped = 0;
    for (int turn = 0; turn < 10'000 && stopped < 3; ++turn) {
      const auto rank = random() % 3;
      const int slowest = *std::min_element(done, done + 3);
      if (done[rank] < 0 || done[rank] > slowest) continue;  // it waits for the others in a collective
      const int step = ++done[rank];
      if (step < noticed_at[rank]) continue;
      const auto stop = agreement[rank].ask(step);
      if (!stop) continue;
      ASSERT_LE(step, *stop) << "trial " << trial << ": rank " << rank << " is too late";
      if (step == *stop) ++stopped;
      if (stopped == 3) {
        EXPECT_EQ(done[0], done[1]);
        EXPECT_EQ(done[0], done[2]);
      }
    }
    ASSERT_EQ(stopped, 3) << "trial " << trial;
  }
}

}  // namespace
}  // namespace muster
