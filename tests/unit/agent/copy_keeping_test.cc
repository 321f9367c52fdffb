// CopyKeeping decides which copies of a neighbour's slots to fetch, and which to drop for them.
#include "agent/core/memory/copy_keeping.h"

#include <gmock/gmock.h>

namespace muster::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using enum CopyKeeping::Use;

constexpr std::uint64_t kSlot = 100;
constexpr std::uint64_t kAmple = 1000;

Copy copy(int rank, std::uint64_t step, std::uint64_t attempt = 1) {
  return {Rank(rank), {.step = step, .attempt = Attempt(attempt)}, kSlot};
}

// Keeps copies of ranks 2 and 3.
class CopyKeepingTest : public testing::Test {
 protected:
  CopyKeepingTest() { keeping_.begin(Attempt(1), {}, {Rank(2), 2}); }
  CopyKeeping keeping_;
};

TEST_F(CopyKeepingTest, TakesOnlyTheNeighboursCopiesOfThisAttempt) {
  EXPECT_EQ(keeping_.use_of(copy(2, 10), true, kAmple), kKeep);
  EXPECT_EQ(keeping_.use_of(copy(4, 10), true, kAmple), kNone) << "it is another node's rank";
  keeping_.begin(Attempt(2), {}, {Rank(2), 2});
  EXPECT_EQ(keeping_.use_of(copy(2, 12), false, kAmple), kNone) << "it is from the attempt before";
  EXPECT_EQ(keeping_.use_of(copy(2, 12), true, kAmple), kKeep) << "its rank resumes from it";
  EXPECT_EQ(keeping_.use_of(copy(2, 12, 3), true, kAmple), kNone) << "that attempt has not begun here";
}

// When this node is lost, other nodes' ranks may not have the newest step yet.
TEST_F(CopyKeepingTest, AStepIsDroppedWhenTheNextIsCompleteAndTheOneAfterIsSaved) {
  for (const int rank : {2, 3}) keeping_.add_fetched(copy(rank, 10));
  EXPECT_EQ(keeping_.use_of(copy(2, 10), true, kAmple), kNone) << "it is here already";
  EXPECT_EQ(keeping_.use_of(copy(2, 8), true, kAmple), kKeep) << "ranks have resumed from it";
  EXPECT_THAT(keeping_.make_way(copy(2, 12)), IsEmpty());
  for (const int rank : {2, 3}) keeping_.add_fetched(copy(rank, 12));
  EXPECT_THAT(keeping_.copies(), SizeIs(4));
  EXPECT_THAT(keeping_.make_way(copy(2, 14)), ElementsAre(copy(2, 10), copy(3, 10)));
  EXPECT_THAT(keeping_.copies(), ElementsAre(copy(2, 12), copy(3, 12)));
}

TEST_F(CopyKeepingTest, AStepThatWasReplacedBeforeItWasCompleteIsDropped) {
  for (const int rank : {2, 3}) keeping_.add_fetched(copy(rank, 10));
  keeping_.add_fetched(copy(2, 12));
  EXPECT_THAT(keeping_.make_way(copy(3, 14)), ElementsAre(copy(2, 12)));
  EXPECT_THAT(keeping_.copies(), SizeIs(2)) << "step 10 stays";
}

TEST_F(CopyKeepingTest, TheCopiesOfTheAttemptBeforeStayUntilThisOneHasSome) {
  for (const int rank : {2, 3}) keeping_.add_fetched(copy(rank, 10));
  keeping_.begin(Attempt(2), {}, {Rank(2), 2});
  EXPECT_THAT(keeping_.forget_others(), IsEmpty());
  EXPECT_EQ(keeping_.use_of(copy(2, 6, 2), true, kAmple), kKeep) << "it resumed from step 4";
  EXPECT_THAT(keeping_.make_way(copy(2, 6, 2)), IsEmpty());
  for (const int rank : {2, 3}) keeping_.add_fetched(copy(rank, 6, 2));
  EXPECT_THAT(keeping_.make_way(copy(2, 8, 2)), ElementsAre(copy(2, 10), copy(3, 10)));
}

TEST_F(CopyKeepingTest, ACopyThatDoesNotFitIsNotTaken) {
  EXPECT_EQ(keeping_.use_of(copy(2, 10), true, kSlot), kKeep);
  EXPECT_EQ(keeping_.use_of(copy(2, 10), true, kSlot - 1), kNoRoom);
  for (const int rank : {2, 3}) keeping_.add_fetched(copy(rank, 10));
  EXPECT_EQ(keeping_.use_of(copy(2, 12), true, 3 * kSlot - 1), kNoRoom)
      << "step 10 must not be dropped for it";
  EXPECT_EQ(keeping_.use_of(copy(2, 12), true, 3 * kSlot), kKeep);
}

TEST_F(CopyKeepingTest, GivesWayToSlotsTheLeastUsefulFirst) {
  keeping_.begin(Attempt(2), {}, {Rank(0), 1});
  keeping_.add_former_slot(copy(5, 12));
  EXPECT_THAT(keeping_.make_way(copy(0, 10, 2)), ElementsAre(copy(5, 12))) << "ranks have saved";
  keeping_.add_fetched(copy(0, 10, 2));
  keeping_.add_former_slot(copy(5, 12));
  EXPECT_THAT(keeping_.shrink(2 * kSlot), IsEmpty());
  EXPECT_THAT(keeping_.shrink(kSlot), ElementsAre(copy(5, 12)));
  EXPECT_THAT(keeping_.shrink(kSlot - 1), ElementsAre(copy(0, 10, 2)));
}

TEST_F(CopyKeepingTest, CopiesForOwnRanksAreFetchedFromAnyAttempt) {
  keeping_.begin(Attempt(4), {Rank(0)}, {Rank(2), 2});
  EXPECT_EQ(keeping_.use_of(copy(0, 10), true, kAmple), kOwn);
  EXPECT_EQ(keeping_.use_of(copy(1, 10), true, kAmple), kNone);
  keeping_.stop_fetching(Attempt(3));
  EXPECT_EQ(keeping_.use_of(copy(0, 10), true, kAmple), kOwn) << "that attempt is over";
  keeping_.stop_fetching(Attempt(4));
  EXPECT_EQ(keeping_.use_of(copy(0, 10), true, kAmple), kNone);
}

TEST_F(CopyKeepingTest, CopiesThatOtherNodesMayNeedStayUntilRanksHaveSaved) {
  for (const int rank : {2, 3, 7}) keeping_.add_former_slot(copy(rank, 10));
  keeping_.begin(Attempt(2), {}, {Rank(2), 2});
  EXPECT_THAT(keeping_.copies(), SizeIs(3));
  EXPECT_THAT(keeping_.forget_others(), ElementsAre(copy(7, 10)));
}

}  // namespace
}  // namespace muster::agent
