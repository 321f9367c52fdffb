#include "launcher/core/view/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/core/view/progress.h"

namespace muster::launcher {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class RankTableTest : public testing::Test {
 protected:
  void say(wire::ToLauncher message, Attempt attempt = Attempt(1), NodeId node = NodeId(1)) {
    table.on(members.at(static_cast<std::size_t>(node.value())), attempt, message, now);
  }
  void report(const std::string& kind, std::int64_t step, const std::string& text = "") {
    if (kind == "step") steps.made(Rank(3), step);
    say(wire::WorkerReported{Rank(3), *wire::word_named<wire::ReportKind>(kind), step, text});
  }
  RankStatus rank(std::int32_t number) const {
    return statuses_of(table, steps, members, now).at(static_cast<std::size_t>(number));
  }

  RankTable table;
  Steps steps;
  std::vector<NodePlan> members = {{NodeId(0), Rank(0), 2}, {NodeId(1), Rank(2), 2}};
  TimePoint now{1h};
};

TEST_F(RankTableTest, KnowsNothingOfRanksThatHaveNotStarted) {
  ASSERT_EQ(statuses_of(table, steps, members, now).size(), 4U);
  EXPECT_EQ(rank(3).state, "not started");
  EXPECT_EQ(rank(3).node, NodeId(1));
  EXPECT_EQ(rank(3).pid, 0);
}

TEST_F(RankTableTest, GivesEachRankItsProcess) {
  say(wire::WorkersStarted{.pids = {70, 71}});
  report("hello", 0);
  now += 500ms;
  EXPECT_EQ(rank(2).pid, 70);
  EXPECT_EQ(rank(3).pid, 71);
  EXPECT_EQ(rank(3).state, "running");
  EXPECT_DOUBLE_EQ(rank(3).last_sign_seconds.value(), 0.5);
  EXPECT_EQ(rank(0).state, "not started");
}

TEST_F(RankTableTest, MeasuresStepsOverSecondsNotOverTheWholeAttempt) {
  report("step", 1);
  EXPECT_FALSE(rank(3).steps_per_second);
  for (int step = 2; step <= 11; ++step) {  // slow at first
    now += 1s;
    report("step", step);
  }
  EXPECT_NEAR(rank(3).steps_per_second.value(), 1.0, 1e-9);
  for (int step = 12; step <= 211; ++step) {  // then ten times as fast, for 20 s
    now += 100ms;
    report("step", step);
  }
  EXPECT_NEAR(rank(3).steps_per_second.value(), 10.0, 1e-9);
  EXPECT_EQ(rank(3).step, 211);
}

TEST_F(RankTableTest, ShowsTheSectionAndWhatIsRemarkable) {
  report("heartbeat", -1, "eval");
  EXPECT_EQ(rank(3).section, "eval");
  wire::WorkerStalled stalled;
  stalled.rank = Rank(3);
  stalled.what = "is stopped (SIGSTOP) for 3 s";
  say(stalled);
  EXPECT_EQ(rank(3).state, "is stopped (SIGSTOP) for 3 s");
  report("step", 4);
  EXPECT_EQ(rank(3).state, "running") << "it goes on";
  report("heartbeat", 4);
  EXPECT_EQ(rank(3).section, "");
  report("finished", 4);
  EXPECT_EQ(rank(3).state, "finished");
  wire::WorkerExited exited;
  exited.rank = Rank(3);
  exited.signal = 9;
  say(exited);
  EXPECT_EQ(rank(3).state, "was killed by SIGKILL");
}

TEST_F(RankTableTest, HasNoLastSignOfAProgramThatReportsNothing) {
  say(wire::WorkersStarted{.pids = {70, 71}});
  now += 10s;
  EXPECT_EQ(rank(3).last_sign_seconds, std::nullopt);
  EXPECT_EQ(rank(3).state, "running");
  wire::WorkerExited exited;
  exited.rank = Rank(3);
  say(exited);
  EXPECT_EQ(rank(3).last_sign_seconds, std::nullopt);
}

TEST_F(RankTableTest, ForgetsTheAttemptBefore) {
  say(wire::WorkersStarted{.pids = {70, 71}});
  say(wire::WorkersStarted{.pids = {80, 81}}, Attempt(2), NodeId(0));
  EXPECT_EQ(rank(3).state, "not started");
  EXPECT_EQ(rank(1).pid, 81);
}

TEST(StartProgress, SaysHowFarItIsAndWhatItWaitsFor) {
  EXPECT_EQ(progress_text({.agents_joined = 1, .agents = 2, .waiting_for = "waiting for the agent of node1"}),
            "starting: 1 of 2 agents joined; waiting for the agent of node1");
  EXPECT_EQ(
      progress_text({.agents_joined = 2, .agents = 2, .workers_started = 3, .workers = 4, .waiting_for = ""}),
      "starting: 2 of 2 agents joined, 3 of 4 workers started");
}

JobStatus example() {
  return {.job_id = "mnist-1",
          .phase = "running",
          .waiting_for = "",
          .attempt = 2,
          .restart_count = 1,
          .max_restarts = 3,
          .elapsed_seconds = 75,
          .committed_step = 300,
          .nodes = {{NodeId(0), Rank(0), 1}},
          .ranks = {{.rank = Rank(0),
                     .node = NodeId(0),
                     .pid = 70,
                     .step = 350,
                     .steps_per_second = 12.345,
                     .last_sign_seconds = 0.25,
                     .section = "eval",
                     .state = "running"}},
          .events = {{12, "rank 0 (node0) was killed by SIGKILL"}}};
}

TEST(JobStatusLine, IsReadAsItWasWritten) {
  const std::string line = status_as_line(example());
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const auto read = parse_status(line);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(status_as_line(*read), line);
  EXPECT_EQ(read->committed_step, 300);
  EXPECT_FALSE(read->ranks[0].resumed_step);
}

TEST(JobStatusLine, IsRefusedWhenItIsNone) {
  for (const char* line : {"", "{}", "[1]", "{\"job_id\": 1e300}"})
    EXPECT_EQ(parse_status(line).error().code(), ErrorCode::kCorrupt) << line;
}

TEST(JobStatusText, SaysItAllInATable) {
  const std::string text = status_as_text(example());
  EXPECT_THAT(text, HasSubstr("mnist-1  running for 1m15s: 1 rank on 1 node\n"));
  EXPECT_THAT(text, HasSubstr("attempt      2, 1 of 3 restarts used\n"));
  EXPECT_THAT(text, HasSubstr("checkpoint   committed up to step 300\n"));
  EXPECT_THAT(
      text, HasSubstr("    0  node0           70        350     12.35    0.2s ago  eval          running\n"));
  EXPECT_THAT(text, HasSubstr("12s ago  rank 0 (node0) was killed by SIGKILL\n"));
}

TEST(JobStatusText, NamesTheHostsOfAJobThatHasThem) {
  JobStatus status = example();
  status.names = NodeNames({{NodeId(0), "gpu-host-17"}});
  const auto read = parse_status(status_as_line(status));
  ASSERT_TRUE(read) << read.error().message();
  const std::string text = status_as_text(*read);
  EXPECT_THAT(text, HasSubstr(" RANK  NODE                      PID "));
  EXPECT_THAT(text, HasSubstr("    0  node0 (gpu-host-17)        70 "));
}

TEST(JobStatusText, CountsRestartsOfMoreThanAWindow) {
  JobStatus status = example();
  status.restart_count = 5;
  EXPECT_THAT(status_as_text(status), HasSubstr("attempt      2, 5 restarts, not all of them lately\n"));
}

}  // namespace
}  // namespace muster::launcher
