#include "launcher/core/job/held_reports.h"

#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using wire::ReportKind;

constexpr TimePoint kStart{1000s};

AgentSaid report(int rank, ReportKind kind, std::int64_t step) {
  return {{NodeId(0), Incarnation(1)}, Attempt(1), wire::WorkerReported{Rank(rank), kind, step, ""}};
}
wire::WorkerReported said(const AgentSaid& event) {
  return std::get<wire::WorkerReported>(event.message);
}

TEST(HeldReports, KeepsTheNewestStepOfEachRankInOrder) {
  HeldReports reports;
  EXPECT_TRUE(reports.hold(report(1, ReportKind::kStep, 7), kStart));
  EXPECT_TRUE(reports.hold(report(0, ReportKind::kHeartbeat, 3), kStart + 10ms));
  EXPECT_TRUE(reports.hold(report(1, ReportKind::kStep, 8), kStart + 20ms));
  EXPECT_TRUE(reports.hold(report(1, ReportKind::kHeartbeat, -1), kStart + 30ms));
  EXPECT_TRUE(reports.hold(report(0, ReportKind::kStep, 4), kStart + 40ms));
  EXPECT_EQ(reports.next_deadline(), kStart + HeldReports::kInterval);
  const auto held = reports.take();
  ASSERT_EQ(held.size(), 2U);
  EXPECT_EQ(said(held[0]).rank, Rank(1));
  EXPECT_EQ(said(held[0]).step, 8) << "a heartbeat does not replace a step";
  EXPECT_EQ(held[0].heard_at, kStart + 30ms) << "but it is a sign of life of the same agent";
  EXPECT_EQ(said(held[1]).kind, ReportKind::kStep);
  EXPECT_EQ(said(held[1]).step, 4);
  EXPECT_FALSE(reports.next_deadline());
  EXPECT_TRUE(reports.take().empty());
}

TEST(HeldReports, HoldsNothingElse) {
  HeldReports reports;
  EXPECT_FALSE(reports.hold(report(0, ReportKind::kCommitted, 5), kStart));
  EXPECT_FALSE(reports.hold({{NodeId(0), Incarnation(1)}, Attempt(1), wire::WorkersGone{}}, kStart));
  EXPECT_FALSE(reports.next_deadline());
}

}  // namespace
}  // namespace muster::launcher
