#include "common/base/step_shares.h"

#include <gmock/gmock.h>

namespace muster {
namespace {

constexpr std::int64_t kMs = 1'000'000;

TEST(StepShares, AreMeansOverStepsAndRanks) {
  const StepShares all = shares_of({{0, 10, {{"compute", 60 * kMs}, {"communicate", 40 * kMs}}},
                                    {1, 20, {{"compute", 200 * kMs}, {"eval", 40 * kMs}}},
                                    {2, 0, {}}});
  EXPECT_EQ(all.step_count, 20);
  EXPECT_EQ(all.rank_count, 2) << "rank 2 has made no step";
  EXPECT_DOUBLE_EQ(all.step_ms, 11);
  ASSERT_EQ(all.shares.size(), 3U);
  EXPECT_EQ(all.shares[0].part, "compute");
  EXPECT_DOUBLE_EQ(all.shares[0].mean_ms, 8);
  EXPECT_DOUBLE_EQ(all.shares[0].most_ms, 10);
  EXPECT_EQ(all.shares[0].most_rank, 1);
  EXPECT_EQ(all.shares[1].part, "communicate");
  EXPECT_DOUBLE_EQ(all.shares[1].mean_ms, 2) << "rank 1 has not waited for others";
  EXPECT_EQ(all.shares[1].most_rank, 0);
  EXPECT_EQ(all.shares[2].part, "eval");
  EXPECT_DOUBLE_EQ(all.shares[2].share, 1.0 / 11);
}

TEST(StepShares, ListTheLargestFirstInOneLineAndLeaveOutSmallOnes) {
  const StepShares all = shares_of(
      {{0,
        1,
        {{"data", 5 * kMs}, {"compute", 80 * kMs}, {"communicate", 15 * kMs}, {"checkpoint", kMs / 4}}}});
  EXPECT_EQ(to_line(all), "100 ms a step: compute 80 %, communicate 15 %, data 5 %");
}

TEST(StepShares, OfOneRankGiveATableWithoutRanks) {
  const StepShares all = shares_of({{0, 2, {{"data", 5 * kMs}, {"compute", 15 * kMs}}}});
  EXPECT_EQ(to_table(all, "  "),
            "  step time          ms    share\n"
            "  data             2.50   25.0 %\n"
            "  compute          7.50   75.0 %\n"
            "  in all           10.0   over 2 steps\n");
  EXPECT_EQ(to_table(shares_of({{0, 0, {}}})), "");
}

TEST(StepShares, OfSeveralRanksNameTheOneWithTheMost) {
  const StepShares all = shares_of({{0, 1, {{"compute", 100 * kMs}}}, {7, 1, {{"compute", 300 * kMs}}}});
  EXPECT_EQ(to_table(all),
            "step time          ms    share   longest\n"
            "compute           200  100.0 %       300 ms on rank 7\n"
            "in all            200   over 1 step, mean of 2 ranks\n");
}

}  // namespace
}  // namespace muster
