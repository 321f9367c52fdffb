#include "launcher/core/job/report_fold.h"

#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using wire::ReportKind;

constexpr TimePoint kStart{1000s};

AgentSaid report(int rank, ReportKind kind, std::int64_t step, Attempt attempt = Attempt(1)) {
  return {{NodeId(0), Incarnation(1)}, attempt, wire::WorkerReported{Rank(rank), kind, step, ""}};
}
wire::WorkerReported said(const AgentSaid& event) {
  return std::get<wire::WorkerReported>(event.message);
}

TEST(ReportFold, KeepsTheNewestStepOfEachRankInOrder) {
  ReportFold fold;
  EXPECT_TRUE(fold.hold(report(1, ReportKind::kStep, 7), kStart));
  EXPECT_TRUE(fold.hold(report(0, ReportKind::kHeartbeat, 3), kStart + 10ms));
  EXPECT_TRUE(fold.hold(report(1, ReportKind::kStep, 8), kStart + 20ms));
  EXPECT_TRUE(fold.hold(report(1, ReportKind::kHeartbeat, -1), kStart + 30ms));
  EXPECT_TRUE(fold.hold(report(0, ReportKind::kStep, 4), kStart + 40ms));
  EXPECT_EQ(fold.next_deadline(), kStart + ReportFold::kInterval);
  const auto held = fold.take();
  ASSERT_EQ(held.size(), 2U);
  EXPECT_EQ(said(held[0]).rank, Rank(1));
  EXPECT_EQ(said(held[0]).step, 8) << "a heartbeat does not replace a step";
  EXPECT_EQ(held[0].heard_at, kStart + 30ms) << "but it came from the same agent";
  EXPECT_EQ(said(held[1]).kind, ReportKind::kStep);
  EXPECT_EQ(said(held[1]).step, 4);
  EXPECT_FALSE(fold.next_deadline());
  EXPECT_TRUE(fold.take().empty());
}

TEST(ReportFold, ForgetsAnEarlierAttempt) {
  ReportFold fold;
  fold.hold(report(0, ReportKind::kStep, 90, Attempt(1)), kStart);
  fold.hold(report(0, ReportKind::kHeartbeat, -1, Attempt(2)), kStart);
  EXPECT_EQ(fold.take().at(0).attempt, Attempt(2));
}

TEST(ReportFold, HoldsNothingElse) {
  ReportFold fold;
  EXPECT_FALSE(fold.hold(report(0, ReportKind::kCommitted, 5), kStart));
  EXPECT_FALSE(fold.hold({{NodeId(0), Incarnation(1)}, Attempt(1), wire::WorkersGone{}}, kStart));
  EXPECT_FALSE(fold.next_deadline());
}

}  // namespace
}  // namespace muster::launcher
