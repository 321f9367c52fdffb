#include "launcher/core/view/fold.h"

#include <gtest/gtest.h>
#include <random>

namespace muster::launcher {
namespace {

using std::chrono::milliseconds;

class FoldTest : public testing::Test {
 protected:
  void add(int rank, std::string_view text, int stream = 1) {
    fold.add(NodeId(rank / 4), Rank(rank), stream, text, now);
  }
  std::vector<std::string> due() {
    std::vector<std::string> shown;
    while (const auto line = fold.take(now)) shown.push_back(line_prefix(line->from, false) + line->text);
    return shown;
  }
  using Shown = std::vector<std::string>;
  TimePoint now{std::chrono::seconds(1)};
  Fold fold;
};

TEST_F(FoldTest, ShowsWhatAllRanksSayOnceWithTheirNumbers) {
  for (int rank = 0; rank < 4; ++rank) add(rank, "loading\n");
  EXPECT_EQ(due(), Shown{});
  now += Fold::kPatience;
  EXPECT_EQ(due(), Shown{"node0:0-3: loading\n"});
}

TEST_F(FoldTest, NamesGapsAndSeveralNodes) {
  for (const int rank : {6, 0, 1, 2, 4}) add(rank, "ready\n");
  now += Fold::kPatience;
  EXPECT_EQ(due(), Shown{"node0-1:0-2,4,6: ready\n"});
}

TEST_F(FoldTest, DelaysNoLineLongerThanItsPatience) {
  add(0, "step 1\n");
  now += Fold::kPatience - milliseconds(1);
  add(1, "step 1\n");
  EXPECT_EQ(due(), Shown{});
  EXPECT_EQ(fold.next_deadline(), now + milliseconds(1));
  now += milliseconds(1);
  EXPECT_EQ(due(), Shown{"node0:0-1: step 1\n"});
  EXPECT_EQ(fold.next_deadline(), std::nullopt);
  add(2, "step 1\n");  // too late: a line of its own
  now += Fold::kPatience;
  EXPECT_EQ(due(), Shown{"node0:2: step 1\n"});
}

TEST_F(FoldTest, KeepsEveryRanksOwnLinesAndTheirOrder) {
  for (const char* line : {"a\n", "a\n", "b\n", "a\n"}) {
    for (const int rank : {0, 1}) add(rank, line);
  }
  now += Fold::kPatience;
  EXPECT_EQ(due(), (Shown{"node0:0-1: a\n", "node0:0-1: a\n", "node0:0-1: b\n", "node0:0-1: a\n"}));
}

TEST_F(FoldTest, DoesNotMoveALineBeforeAnEarlierOneOfItsRank) {
  add(0, "x\n");
  add(1, "y\n");
  add(1, "x\n");  // may not join rank 0's
  add(0, "y\n");  // may join rank 1's
  now += Fold::kPatience;
  EXPECT_EQ(due(), (Shown{"node0:0: x\n", "node0:0-1: y\n", "node0:1: x\n"}));
}

TEST_F(FoldTest, KeepsTheStreamsApart) {
  add(0, "same\n", 1);
  add(1, "same\n", 2);
  now += Fold::kPatience;
  EXPECT_EQ(due(), (Shown{"node0:0: same\n", "node0:1: same\n"}));
}

TEST_F(FoldTest, LetsTheOldestGoWhenTooMuchWaits) {
  const std::string large(Fold::kMaxBytes / 2, 'x');
  add(0, "1" + large);
  add(0, "2" + large);
  add(0, "3" + large);
  EXPECT_EQ(due().size(), 2U);
}

TEST_F(FoldTest, ReturnsEverythingWhenAsked) {
  add(0, "a\n");
  add(1, "b\n");
  EXPECT_EQ(fold.take(TimePoint::max())->text, "a\n");
  EXPECT_EQ(fold.take(TimePoint::max())->text, "b\n");
  EXPECT_FALSE(fold.take(TimePoint::max()));
}

// For any lines at any times: each rank's lines leave once, in order, in time.
TEST_F(FoldTest, LosesAndReordersNothingOfARank) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::map<Rank, std::vector<std::string>> said;
    std::map<Rank, std::vector<std::string>> shown;
    const auto note = [&](const Fold::Line& line) {
      for (const auto& [rank, node] : line.from) shown[rank].push_back(line.text);
    };
    for (int i = 0; i < 500; ++i) {
      const int rank = static_cast<int>(random() % 5);
      const std::string text = std::to_string(random() % 4);
      add(rank, text);
      said[Rank(rank)].push_back(text);
      now += milliseconds(random() % 8);
      while (const auto line = fold.take(now)) note(*line);
      if (fold.next_deadline()) ASSERT_GT(*fold.next_deadline(), now) << "seed " << seed;
    }
    while (const auto line = fold.take(TimePoint::max())) note(*line);
    ASSERT_EQ(shown, said) << "seed " << seed;
  }
}

}  // namespace
}  // namespace muster::launcher
